// Workers as the controllers of client-go have them: -waiting of them are inside a reconcile, where they wait for a
// status that never comes; -idle of them wait for a key.
package main

import (
	"flag"
	"sync"
	"time"
)

var (
	waiting = flag.Int("waiting", 0, "workers that wait inside a reconcile")
	idle    = flag.Int("idle", 0, "workers that wait for a key")
)

type workqueue struct {
	lock  sync.Mutex
	added *sync.Cond
	keys  []string
}

func newWorkqueue(keys int) *workqueue {
	queue := &workqueue{keys: make([]string, keys)}
	queue.added = sync.NewCond(&queue.lock)
	return queue
}

//go:noinline
func (queue *workqueue) Get() string {
	queue.lock.Lock()
	defer queue.lock.Unlock()
	for len(queue.keys) == 0 {
		queue.added.Wait()
	}
	key := queue.keys[0]
	queue.keys = queue.keys[1:]
	return key
}

//go:noinline
func processNextWorkItem(queue *workqueue) bool {
	reconcile(queue.Get())
	return true
}

//go:noinline
func reconcile(key string) { ensurePlugins(key) }

//go:noinline
func ensurePlugins(string) {
	for {
		time.Sleep(time.Second)
	}
}

func runWorkers() {
	queue := newWorkqueue(*waiting)
	for range *waiting + *idle {
		go func() {
			for processNextWorkItem(queue) {
			}
		}()
	}
}
