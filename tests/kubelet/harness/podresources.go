package main

// The kubelet's PodResources service over the manager's books: what a plugin asks who holds what.

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

const podResourcesSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

func (k *kubelet) GetActivePods() []*v1.Pod { return k.activePods() }
func (k *kubelet) GetPods() []*v1.Pod       { return k.activePods() }

func (k *kubelet) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	pod, err := k.pod(name)
	return pod, err == nil
}

func (k *kubelet) GetDevices(uid, container string) []*podresourcesapi.ContainerDevices {
	if k.manager == nil {
		return nil
	}
	return flat(k.manager.GetDevices(uid, container))
}

func flat(all devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	told := []*podresourcesapi.ContainerDevices{}
	for name, instances := range all {
		for id := range instances {
			told = append(told, &podresourcesapi.ContainerDevices{
				ResourceName: name, DeviceIds: []string{id},
			})
		}
	}
	return told
}

func (k *kubelet) servePodResources() error {
	if err := os.MkdirAll(filepath.Dir(podResourcesSocket), 0o750); err != nil {
		return err
	}
	_ = os.Remove(podResourcesSocket)
	listener, err := net.Listen("unix", podResourcesSocket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	podresourcesapi.RegisterPodResourcesListerServer(server,
		podresources.NewV1PodResourcesServer(context.Background(), podresources.PodResourcesProviders{
			Pods: k, Devices: k, Cpus: noCPUs{}, Memory: noMemory{}, DynamicResources: noClaims{},
		}))
	go func() { _ = server.Serve(listener) }()
	return nil
}
