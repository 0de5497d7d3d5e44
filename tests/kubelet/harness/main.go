// Command kubelet drives the kubelet's device manager over JSON lines on standard input and output.
//
// It works on /var/lib/kubelet, which the manager fixes: run it in a mount namespace of its own.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

type command struct {
	Op  string     `json:"op"`
	Pod podRequest `json:"pod"`
	UID string     `json:"uid"`
}

func (k *kubelet) do(c command) (any, error) {
	switch c.Op {
	case "start":
		return nil, k.start()
	case "stop":
		return nil, k.halt()
	case "restart":
		if err := k.halt(); err != nil {
			return nil, err
		}
		return nil, k.start()
	case "capacity":
		return k.capacity()
	case "admit":
		return k.admit(c.Pod)
	case "remove_pod":
		k.remove(c.UID)
		return nil, nil
	case "devices":
		return k.devices(c.UID)
	case "run_options":
		return k.options(c.UID)
	case "health":
		return k.health(c.UID)
	case "sockets":
		return k.sockets(), nil
	case "checkpoint":
		data, err := os.ReadFile(checkpoint)
		return json.RawMessage(data), err
	case "wipe_checkpoint":
		return nil, os.Remove(checkpoint)
	}
	return nil, fmt.Errorf("there is no op %q", c.Op)
}

func main() {
	klog.InitFlags(nil)
	flag.Parse()
	k := &kubelet{pods: map[string]*v1.Pod{}}
	if err := k.servePodResources(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c command
		answer := map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			answer["error"] = err.Error()
		} else if result, err := k.do(c); err != nil {
			answer["error"] = err.Error()
		} else {
			answer["result"] = result
		}
		if err := answers.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
}
