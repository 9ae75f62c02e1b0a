# The demo server. Build arguments:
#
#   EXTRAS           extras of pyproject.toml, separated by commas: serve,torch for models in PyTorch
#   TORCH_INDEX      package index for torch alone; the default index has the CUDA build, which is several gigabytes larger
#   SYSTEM_PACKAGES  Debian packages of the final image: g++ is the compiler that torch.compile calls
#   PYTHON_VERSION   3.10 to 3.13
#
# The server listens on all addresses of the container and does not start without a token:
#
#   docker run -p 127.0.0.1:8000:8000 -e REALTIME_ENGINE_TOKEN="$(openssl rand -hex 16)" IMAGE serve maze
ARG PYTHON_VERSION=3.12

FROM python:${PYTHON_VERSION}-slim AS build
ARG EXTRAS=serve
ARG TORCH_INDEX=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY pyproject.toml constraints.txt docker/requirements.py ./
# The dependencies are layers of their own, which stay cached when only the sources change.
RUN python -m pip install -c constraints.txt hatchling 'tomli; python_version < "3.11"' \
    && python -m venv /opt/venv \
    && python requirements.py "${EXTRAS}" > requirements.txt
# torch comes from its index without dependencies: those are installed from the default index below.
RUN if [ -n "${TORCH_INDEX}" ] && grep '^torch[^a-z]' requirements.txt > torch.txt; then \
        /opt/venv/bin/pip install --no-deps --index-url "${TORCH_INDEX}" -r torch.txt -c constraints.txt; \
    fi
RUN /opt/venv/bin/pip install -r requirements.txt -c constraints.txt
COPY README.md LICENSE ./
COPY web web
COPY src src
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
    && /opt/venv/bin/pip install --no-deps wheels/*.whl

FROM python:${PYTHON_VERSION}-slim
ARG SYSTEM_PACKAGES=
RUN if [ -n "${SYSTEM_PACKAGES}" ]; then \
        apt-get update \
        && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${SYSTEM_PACKAGES} \
        && rm -rf /var/lib/apt/lists/*; \
    fi
# .cache is created here so that a volume mounted there belongs to the user.
RUN useradd --uid 10001 --create-home engine && install -d -o engine -g engine /home/engine/.cache
COPY --from=build /opt/venv /opt/venv
ENV PATH="/opt/venv/bin:${PATH}" \
    PYTHONUNBUFFERED=1 \
    REALTIME_ENGINE_HOST=0.0.0.0 \
    REALTIME_ENGINE_PORT=8000 \
    TORCHINDUCTOR_CACHE_DIR=/home/engine/.cache/torchinductor \
    TRITON_CACHE_DIR=/home/engine/.cache/triton
USER engine
WORKDIR /home/engine
EXPOSE 8000
# Healthy: the server answers HTTP. /readyz says whether the model is loaded.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; server = http.client.HTTPConnection('127.0.0.1', int(os.environ['REALTIME_ENGINE_PORT']), timeout=2); server.request('GET', '/healthz'); sys.exit(server.getresponse().status != 200)"]
ENTRYPOINT ["realtime-engine"]
CMD ["serve", "maze"]
