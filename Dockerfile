
# Copyright (C) mcds authors

# nginx's official image with the module:
#
#   docker build --build-arg NGINX=1.26.3 -t nginx-mcds .

ARG NGINX=1.26.3


FROM nginx:${NGINX} AS build

# where the source of that nginx is found

ARG NGINX_MIRROR=https://nginx.org/download

RUN apt-get update && apt-get install -y --no-install-recommends \
        ca-certificates curl gcc libc6-dev libjansson-dev libmemcached-dev \
        libpcre2-dev libssl-dev libzstd-dev make zlib1g-dev

COPY . /mcds

RUN NGINX_MIRROR=$NGINX_MIRROR /mcds/misc/build-for --out /build nginx


FROM nginx:${NGINX}

RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        libjansson4 libmemcached11 libzstd1 \
    && rm -rf /var/lib/apt/lists/*

COPY --from=build /build/ngx_http_mcds_module.so /usr/lib/nginx/modules/

RUN sed -i '1i load_module modules/ngx_http_mcds_module.so;' \
        /etc/nginx/nginx.conf \
    && nginx -t
