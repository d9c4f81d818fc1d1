# The operator and `start`, one image. The base is any image with Python 3.11 and glibc: the packages
# are compiled for those. `make image-context` prepares them outside, so the build needs no network.
ARG BASE=docker.io/library/python:3.11-slim
FROM ${BASE}
COPY build/image/dependencies /app
COPY build/image/code /app
# USER: kopf asks for the name of the user, and a bare image has no passwd entry for it.
ENV USER=etcd-operator PYTHONPATH=/app PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By these a registry's page and an inventory know what it is. No time of the build: it would be another
# image each time.
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="etcd-operator"
LABEL org.opencontainers.image.description="Runs etcd on Kubernetes: clusters as StatefulSets, with membership kept safe"
LABEL org.opencontainers.image.licenses="Apache-2.0"
LABEL org.opencontainers.image.version="${VERSION}"
USER 65532:65532
ENTRYPOINT ["python3", "-m", "etcd_operator"]
CMD ["run"]
