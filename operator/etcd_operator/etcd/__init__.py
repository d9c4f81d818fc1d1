"""etcd over the network: questions to members, and what is changed in them."""
