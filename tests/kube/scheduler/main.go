// Answers, line by line, what the libraries of the scheduler say: the effective requests of a pod,
// or the value of a quantity. tests/kube compares the importer with it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
)

type question struct {
	Pod      *v1.Pod `json:"pod"`
	Status   bool    `json:"status"`
	Quantity *string `json:"quantity"`
}

type answer struct {
	// Thousandths, rounded up, by resource.
	Milli map[string]int64 `json:"milli,omitempty"`
	Value int64            `json:"value"`
	Error string           `json:"error,omitempty"`
}

// The API server completes pods before the scheduler sees them: a limit without a request is a
// request, and a pod with limits of its own has requests of its own.
func complete(pod *v1.Pod) {
	fill := func(containers []v1.Container) {
		for i := range containers {
			needs := &containers[i].Resources
			for name, limit := range needs.Limits {
				if needs.Requests == nil {
					needs.Requests = v1.ResourceList{}
				}
				if _, there := needs.Requests[name]; !there {
					needs.Requests[name] = limit.DeepCopy()
				}
			}
		}
	}
	fill(pod.Spec.Containers)
	fill(pod.Spec.InitContainers)
	own := pod.Spec.Resources
	if own == nil || len(own.Limits) == 0 {
		return
	}
	if own.Requests == nil {
		own.Requests = v1.ResourceList{}
	}
	for _, source := range []v1.ResourceList{
		helpers.AggregateContainerRequests(pod, helpers.PodResourcesOptions{}), own.Limits,
	} {
		for name, amount := range source {
			if _, there := own.Requests[name]; !there && helpers.IsSupportedPodLevelResource(name) {
				own.Requests[name] = amount.DeepCopy()
			}
		}
	}
}

func reply(line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	if asked.Quantity != nil {
		amount, err := resource.ParseQuantity(*asked.Quantity)
		if err != nil {
			return answer{Error: err.Error()}
		}
		return answer{Value: amount.Value(), Milli: map[string]int64{"": amount.MilliValue()}}
	}
	complete(asked.Pod)
	options := helpers.PodResourcesOptions{UseStatusResources: asked.Status}
	milli := map[string]int64{}
	for name, amount := range helpers.PodRequests(asked.Pod, options) {
		milli[string(name)] = amount.MilliValue()
	}
	return answer{Milli: milli}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		text, err := json.Marshal(reply(lines.Bytes()))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(text))
	}
}
