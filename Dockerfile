# The demo server. Build with --build-arg EXTRAS=serve,torch for models that run on a GPU (docker/compose.cuda.yml).
ARG PYTHON_VERSION=3.12

FROM python:${PYTHON_VERSION}-slim AS build
ARG EXTRAS=serve
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/venv
COPY pyproject.toml constraints.txt ./
# What it depends on changes seldom: a layer of its own, which a change of the sources does not touch.
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*project['dependencies'], *(line for extra in '${EXTRAS}'.split(',') for line in project['optional-dependencies'][extra]), sep='\n')" > requirements.txt \
    && /opt/venv/bin/pip install -r requirements.txt -c constraints.txt
COPY README.md LICENSE ./
COPY web web
COPY src src
RUN /opt/venv/bin/pip wheel --no-deps --wheel-dir wheels . \
    && /opt/venv/bin/pip install --no-deps wheels/*.whl

FROM python:${PYTHON_VERSION}-slim
# .cache exists so that a volume mounted there belongs to the user.
RUN useradd --uid 10001 --create-home engine && install -d -o engine -g engine /home/engine/.cache
COPY --from=build /opt/venv /opt/venv
ENV PATH="/opt/venv/bin:${PATH}" \
    PYTHONUNBUFFERED=1
USER engine
WORKDIR /home/engine
EXPOSE 8000
# Healthy means that HTTP answers; whether the model is loaded, /readyz tells.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["realtime-engine"]
CMD ["serve", "maze", "--host", "0.0.0.0", "--open"]
