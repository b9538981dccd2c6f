"""Where a phase's wall time went: who was waited for at each instant, and what that component was doing.

*Who is waited for.* A phase is over when its objects have arrived: those that its milestones count, most often pods.
What an object waits for follows from its next step, and the audit log names in hindsight the user who made it: until
the scheduler's binding is answered a pod waits for the scheduler, until kwok's status patch for kwok, until its create,
or the patch that opens its gate, for the operator. So every instant is split evenly among the objects that have not
arrived, and each part is attributed to the user that the object waits for. Objects that a milestone names (the custom
resource, whose status is the last thing to change) count while no counted object is waited for.

*What it was doing* in the time attributed to it: using a core, by its CPU clock, or runnable without one, by the run
delay of all its threads, both as far as they fit into that time; else, while its requests were under way, waiting for
the API server, which may itself have been runnable without a core; or, as many of its requests waited for the client's
rate limit instead, for that. The audit log sees a request from its receipt to its answer; the time that the operator's
client sees beyond that (the network, a proxy) is added from its own histogram, where it serves one. Time in which the
operator is waited for and does none of this is attributed to the other components waited for at that moment (it waits
for them, too), and is unattributed if there are none. For components other than the operator only their wait for a core
is split off.

These parts add up to the phase. Three rows are contributing factors that overlap with them: the operator's work queue
(keys waited, all workers were busy), the API server's CPU, and the machine as a whole.
"""
