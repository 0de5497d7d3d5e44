package main

// A kubelet reduced to its device manager and plugin watcher. Calls whose signatures differ between
// versions are in calls_*.go.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	watcherapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

const (
	pluginDir   = "/var/lib/kubelet/device-plugins"
	registryDir = "/var/lib/kubelet/plugins_registry"
	checkpoint  = pluginDir + "/kubelet_internal_checkpoint"
)

// sources says that the kubelet knows all pods, or (after a restart) that it does not yet.
type sources struct{ ready bool }

func (s *sources) AddSource(string) {}
func (s *sources) AllReady() bool   { return s.ready }

type kubelet struct {
	mu      sync.Mutex
	manager *deviceManager
	stop    chan struct{}
	pods    map[string]*v1.Pod
}

func (k *kubelet) activePods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(k.pods))
	for _, pod := range k.pods {
		pods = append(pods, pod)
	}
	return pods
}

func (k *kubelet) start() error {
	if k.manager != nil {
		return fmt.Errorf("the manager runs already")
	}
	for _, dir := range []string{pluginDir, registryDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	manager, err := newDeviceManager()
	if err != nil {
		return err
	}
	if err := manager.begin(k.activePods); err != nil {
		return err
	}
	k.manager, k.stop = manager, make(chan struct{})
	plugins := pluginmanager.NewPluginManager(registryDir, record.NewFakeRecorder(100))
	plugins.AddHandler(watcherapi.DevicePlugin, manager.GetWatcherHandler())
	go plugins.Run(context.Background(), &sources{ready: true}, k.stop)
	return nil
}

func (k *kubelet) halt() error {
	if k.manager == nil {
		return fmt.Errorf("the manager does not run")
	}
	close(k.stop)
	err := k.manager.end()
	k.manager = nil
	return err
}

type capacity struct {
	Capacity    map[string]int64 `json:"capacity"`
	Allocatable map[string]int64 `json:"allocatable"`
	Removed     []string         `json:"removed"`
}

func plain(list v1.ResourceList) map[string]int64 {
	counts := map[string]int64{}
	for name, quantity := range list {
		counts[string(name)] = quantity.Value()
	}
	return counts
}

func (k *kubelet) capacity() (*capacity, error) {
	if k.manager == nil {
		return nil, fmt.Errorf("the manager does not run")
	}
	all, usable, removed := k.manager.lists()
	return &capacity{plain(all), plain(usable), removed}, nil
}

// podRequest is a pod as the tests write it: containers in order, limits by resource.
type podRequest struct {
	UID            string             `json:"uid"`
	InitContainers []containerRequest `json:"init_containers"`
	Containers     []containerRequest `json:"containers"`
}

type containerRequest struct {
	Name   string           `json:"name"`
	Limits map[string]int64 `json:"limits"`
}

func containers(requests []containerRequest) []v1.Container {
	made := make([]v1.Container, 0, len(requests))
	for _, request := range requests {
		limits := v1.ResourceList{}
		for name, count := range request.Limits {
			limits[v1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
		}
		made = append(made, v1.Container{
			Name:      request.Name,
			Resources: v1.ResourceRequirements{Limits: limits, Requests: limits},
		})
	}
	return made
}

// admit allocates for every container as pod admission does; on failure the pod is not active.
func (k *kubelet) admit(request podRequest) (map[string]map[string][]string, error) {
	if k.manager == nil {
		return nil, fmt.Errorf("the manager does not run")
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: types.UID(request.UID), Name: request.UID, Namespace: "default",
		},
		Spec: v1.PodSpec{
			InitContainers: containers(request.InitContainers),
			Containers:     containers(request.Containers),
		},
	}
	k.mu.Lock()
	k.pods[request.UID] = pod
	k.mu.Unlock()
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := k.manager.allocate(pod, &list[i]); err != nil {
				k.remove(request.UID)
				return nil, err
			}
		}
	}
	return k.devices(request.UID)
}

func (k *kubelet) remove(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
}

func (k *kubelet) pod(uid string) (*v1.Pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod, found := k.pods[uid]
	if !found {
		return nil, fmt.Errorf("there is no pod %q", uid)
	}
	return pod, nil
}

// devices are the IDs that each container of a pod holds, by resource.
func (k *kubelet) devices(uid string) (map[string]map[string][]string, error) {
	pod, err := k.pod(uid)
	if err != nil {
		return nil, err
	}
	held := map[string]map[string][]string{}
	all := append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
	for _, container := range all {
		held[container.Name] = map[string][]string{}
		for name, instances := range k.manager.GetDevices(uid, container.Name) {
			ids := []string{}
			for id := range instances {
				ids = append(ids, id)
			}
			sort.Strings(ids)
			held[container.Name][name] = ids
		}
	}
	return held, nil
}

type runOptions struct {
	Envs        map[string]string `json:"envs"`
	Mounts      []string          `json:"mounts"`
	Devices     []string          `json:"devices"`
	Annotations map[string]string `json:"annotations"`
	CDI         []string          `json:"cdi"`
}

// options are what the container runtime would be told for each container of a pod.
func (k *kubelet) options(uid string) (map[string]*runOptions, error) {
	pod, err := k.pod(uid)
	if err != nil {
		return nil, err
	}
	told := map[string]*runOptions{}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		got, err := k.manager.options(pod, container)
		if err != nil {
			return nil, err
		}
		options := &runOptions{Envs: map[string]string{}, Annotations: map[string]string{}}
		told[container.Name] = options
		if got == nil {
			continue
		}
		for _, env := range got.Envs {
			options.Envs[env.Name] = env.Value
		}
		for _, mount := range got.Mounts {
			options.Mounts = append(options.Mounts, mount.HostPath+":"+mount.ContainerPath)
		}
		for _, device := range got.Devices {
			options.Devices = append(options.Devices, device.PathOnHost)
		}
		for _, annotation := range got.Annotations {
			options.Annotations[annotation.Name] = annotation.Value
		}
		for _, device := range got.CDIDevices {
			options.CDI = append(options.CDI, device.Name)
		}
		sort.Strings(options.CDI)
	}
	return told, nil
}

// health is what containerStatuses[].allocatedResourcesStatus would say.
func (k *kubelet) health(uid string) (map[string]string, error) {
	pod, err := k.pod(uid)
	if err != nil {
		return nil, err
	}
	status := &v1.PodStatus{}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses,
			v1.ContainerStatus{Name: container.Name})
	}
	k.manager.tell(pod, status)
	said := map[string]string{}
	for _, container := range status.ContainerStatuses {
		for _, resource := range container.AllocatedResourcesStatus {
			for _, device := range resource.Resources {
				said[string(device.ResourceID)] = string(device.Health)
			}
		}
	}
	return said, nil
}

func (k *kubelet) sockets() []string {
	found, _ := filepath.Glob(pluginDir + "/*.sock")
	names := []string{}
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return names
}
