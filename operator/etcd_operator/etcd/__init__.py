"""etcd over the network: requests to members, and changes of them."""
