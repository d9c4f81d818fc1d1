"""What runs in the init container `start` of every member: the I/O around `etcd_stateful.start`.

The standard library and the core only. Every start of a pod waits for this package, so it imports
little: no logging, asyncio, argparse or http, and threads only once a ticket was taken.
"""
