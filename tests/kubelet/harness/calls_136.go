//go:build !k8s137

package main

// The calls whose signatures differ between versions of the kubelet: 1.36 here.

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

type deviceManager struct{ *devicemanager.ManagerImpl }

func newDeviceManager() (*deviceManager, error) {
	manager, err := devicemanager.NewManagerImpl(nil, topologymanager.NewFakeManager())
	return &deviceManager{manager}, err
}

func (m *deviceManager) begin(pods func() []*v1.Pod) error {
	return m.Start(klog.Background(), pods, &sources{ready: true},
		containermap.NewContainerMap(), sets.New[string]())
}

func (m *deviceManager) end() error { return m.Stop(klog.Background()) }

func (m *deviceManager) lists() (v1.ResourceList, v1.ResourceList, []string) {
	return m.GetCapacity()
}

func (m *deviceManager) allocate(pod *v1.Pod, container *v1.Container) error {
	return m.Allocate(pod, container)
}

func (m *deviceManager) options(
	pod *v1.Pod, container *v1.Container,
) (*devicemanager.DeviceRunContainerOptions, error) {
	return m.GetDeviceRunContainerOptions(context.Background(), pod, container)
}

func (m *deviceManager) tell(pod *v1.Pod, status *v1.PodStatus) {
	m.UpdateAllocatedResourcesStatus(pod, status)
}

func (k *kubelet) UpdateAllocatedDevices() {
	if k.manager != nil {
		k.manager.UpdateAllocatedDevices()
	}
}

func (k *kubelet) GetAllocatableDevices() []*podresourcesapi.ContainerDevices {
	if k.manager == nil {
		return nil
	}
	return flat(k.manager.GetAllocatableDevices())
}

type noCPUs struct{}

func (noCPUs) GetCPUs(string, string) []int64 { return nil }
func (noCPUs) GetAllocatableCPUs() []int64    { return nil }

type noMemory struct{}

func (noMemory) GetMemory(string, string) []*podresourcesapi.ContainerMemory { return nil }
func (noMemory) GetAllocatableMemory() []*podresourcesapi.ContainerMemory    { return nil }

type noClaims struct{}

func (noClaims) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}
