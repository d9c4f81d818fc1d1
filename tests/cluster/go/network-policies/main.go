// Enforces NetworkPolicies on one node: the kernel asks it about the first packet of each connection
// that rules of the packet filter put into its queue. Its own command wants to run in a pod.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

// The engine would replace its own rules at each change of a pod. When the kernel takes a chain away,
// also in a transaction that it refuses because it has no queues for nftables, it drops all packets
// that are waiting for a verdict (__nf_unregister_net_hook, nf_queue_nf_hook_drop). The tests write
// their rules themselves, so the engine is given a name that the kernel refuses before it has done
// anything: names end at 255 bytes.
var refusedTable = strings.Repeat("-", 256)

func main() {
	node := flag.String("node", "", "the node that it runs on")
	queue := flag.Int("queue", 0, "number of the queue that the packets are in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config := networkpolicy.Config{NodeName: *node, QueueID: *queue, NFTableName: refusedTable}
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
