# The server as an image: the program on Debian, with nothing else added. Runner images are built separately
# (./build.sh, or the profile `runners` of docker-compose.yml).
#
#   docker build --tag mcp-code-sandbox .
#
# Rust is installed in the first stage, so a build needs nothing but Docker. If the program was already built, for this
# Debian or an older one, BINARY takes it from a path below .build instead, and the build takes seconds:
#
#   docker build --tag mcp-code-sandbox --build-arg BINARY=.build/image/mcp-code-sandbox .
#
# It builds with BuildKit and with the classic builder.
ARG BASE=debian:trixie-slim

FROM $BASE AS build
ARG BINARY=""
ARG RUST=1.95.0
ENV CARGO_HOME=/opt/cargo RUSTUP_HOME=/opt/rustup
RUN if [ -z "$BINARY" ]; then \
        apt-get update \
        && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev rustup \
        && rustup toolchain install "$RUST" --profile minimal \
        && rustup default "$RUST"; \
    fi
WORKDIR /src
COPY . .
# The commit for --version, since the repository itself is not sent to the engine.
ARG SOURCE_COMMIT=""
RUN if [ -n "$BINARY" ]; then \
        install -D "$BINARY" /out/mcp-code-sandbox; \
    else \
        cargo build --release --locked --bin mcp-code-sandbox \
        && install -D target/release/mcp-code-sandbox /out/mcp-code-sandbox \
        && rm -rf target; \
    fi

FROM $BASE AS server
LABEL org.opencontainers.image.title="mcp-code-sandbox" \
    org.opencontainers.image.description="MCP server that runs code in hardened, ephemeral containers" \
    org.opencontainers.image.licenses="MIT"
COPY --from=build /out/mcp-code-sandbox /usr/local/bin/
# Files of conversations belong to the server's user, and programs run as that user too. It talks to the engine as a
# member of the group that the socket belongs to: --group-add "$(stat -c %g /var/run/docker.sock)".
USER 1000:1000
WORKDIR /tmp
ENV MCP_HTTP_ADDR=:8080
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s CMD ["mcp-code-sandbox", "healthcheck"]
ENTRYPOINT ["mcp-code-sandbox"]
