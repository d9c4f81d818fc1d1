"""What etcd needs besides members: alarms, space, users."""
