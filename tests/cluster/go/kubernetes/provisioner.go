package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const provisionerName = "etcd-operator.test/local"

// folders gives every claim a folder of its own, <root>/<node>/volumes/<volume>, on the node that
// the scheduler chose. The kubelet applies fsGroup to volumes of type `local`, unlike hostPath.
type folders struct{ root string }

func (f folders) Provision(
	_ context.Context, options controller.ProvisionOptions,
) (*core.PersistentVolume, controller.ProvisioningState, error) {
	if options.SelectedNodeName == "" {
		err := errors.New("no node selected: the storage class must say WaitForFirstConsumer")
		return nil, controller.ProvisioningFinished, err
	}
	path := filepath.Join(f.root, options.SelectedNodeName, "volumes", options.PVName)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return volume(options, path), controller.ProvisioningFinished, nil
}

func (f folders) Delete(_ context.Context, volume *core.PersistentVolume) error {
	paths, err := filepath.Glob(filepath.Join(f.root, "*", "volumes", volume.Name))
	for _, path := range paths {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

func volume(options controller.ProvisionOptions, path string) *core.PersistentVolume {
	onNode := core.NodeSelectorRequirement{
		Key:      core.LabelHostname,
		Operator: core.NodeSelectorOpIn,
		Values:   []string{options.SelectedNodeName},
	}
	return &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: options.PVName},
		Spec: core.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			VolumeMode:                    options.PVC.Spec.VolumeMode,
			Capacity: core.ResourceList{
				core.ResourceStorage: options.PVC.Spec.Resources.Requests[core.ResourceStorage],
			},
			PersistentVolumeSource: core.PersistentVolumeSource{
				Local: &core.LocalVolumeSource{Path: path},
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{
					{MatchExpressions: []core.NodeSelectorRequirement{onNode}},
				},
			}},
		},
	}
}

func newProvisionerCommand() *cobra.Command {
	var kubeconfig, root string
	command := &cobra.Command{
		Use: "volume-provisioner",
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			config.QPS, config.Burst = 200, 400
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			// Retries start at 50 ms: the library's own 15 s would dominate any benchmark.
			backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](
				50*time.Millisecond, 5*time.Second)
			controller.NewProvisionController(
				command.Context(), client, provisionerName, folders{root},
				controller.LeaderElection(false),
				controller.RateLimiter(backoff),
				controller.FailedProvisionThreshold(0),
				controller.FailedDeleteThreshold(0),
			).Run(command.Context())
			return nil
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	command.Flags().StringVar(&root, "root", "", "folder in which each node has a folder")
	return command
}
