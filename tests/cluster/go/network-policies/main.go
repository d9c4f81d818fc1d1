// Enforces NetworkPolicies on one node: the kernel asks it about the first packet of each connection
// that rules of the packet filter put into its queue. Its own command wants to run in a pod, and
// writes rules that the kernel takes only where nftables can queue; the tests write theirs.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

func main() {
	node := flag.String("node", "", "the node that it runs on")
	queue := flag.Int("queue", 0, "number of the queue that the packets are in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config := networkpolicy.Config{NodeName: *node, QueueID: *queue}
	if err := run(ctx, os.Getenv("KUBECONFIG"), config); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig string, config networkpolicy.Config) error {
	rest, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	informed := informers.NewSharedInformerFactory(client, 0)
	core := informed.Core().V1()
	controller, err := networkpolicy.NewController(client,
		informed.Networking().V1().NetworkPolicies(), core.Namespaces(), core.Pods(),
		nil, nil, nil, nil, config)
	if err != nil {
		return err
	}
	informed.Start(ctx.Done())
	return controller.Run(ctx)
}
