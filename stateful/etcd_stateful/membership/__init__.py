"""Who is a member, and what is the one next step that keeps the cluster safe."""
