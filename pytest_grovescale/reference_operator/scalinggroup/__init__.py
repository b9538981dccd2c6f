"""The controller of PodCliqueScalingGroups: cliques that scale together."""
