# syntax=docker/dockerfile:1
# One image for every process: `serve` with the embedded database, or `api`, `worker`,
# `scheduler` and `db upgrade` with an external Postgres (docker-compose.yml).
ARG PYTHON=3.13.9-slim-trixie
FROM python:${PYTHON} AS build
WORKDIR /src
COPY requirements.lock requirements-build.lock pyproject.toml README.md alembic.ini ./
COPY app app
COPY migrations migrations
RUN python -m venv /opt/mosaico \
 && /opt/mosaico/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
 && /opt/mosaico/bin/pip install --no-cache-dir --require-hashes --target /build -r requirements-build.lock \
 && PYTHONPATH=/build /opt/mosaico/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/mosaico/bin/pip uninstall --yes pip

FROM python:${PYTHON}
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin mosaico \
 && install --directory --owner=mosaico --mode=0700 /data
COPY --from=build /opt/mosaico /opt/mosaico
WORKDIR /data
ENV PATH=/opt/mosaico/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MOSAICO_DATA_DIR=/data \
    MOSAICO_HOST=0.0.0.0 \
    MOSAICO_LOG_FORMAT=json
# Those of `make image`; last, so that a new revision repeats no step above.
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="MOSAICO" \
      org.opencontainers.image.description="Tells a team, every morning, whether their AI agents got better or worse." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
USER 10001
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["mosaico"]
CMD ["serve"]
