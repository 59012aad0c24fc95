# Copyright (C) mcds authors

# The files of the live page become a header, which is part of
# src/status/ngx_http_mcds_status_page.c; src/status/config sets mcds_page.

if [ -n "$mcds_page" ]; then

mcds_page=$ngx_addon_dir/src/status/page
mcds_header=$NGX_OBJS/ngx_http_mcds_status_page.h

cat << END                                                    >> $NGX_MAKEFILE

$NGX_OBJS/addon/status/ngx_http_mcds_status_page.o: $mcds_header

$mcds_header: $mcds_page/page.html $mcds_page/page.css \
    $mcds_page/parts.js $mcds_page/hosts.js $mcds_page/page.js ; \
    for file in page_html page_css parts_js hosts_js page_js; do \
        echo "static u_char  ngx_http_mcds_status_\$\$file[] = {"; \
        od -An -v -tx1 "$mcds_page/\$\$(echo \$\$file | tr _ .)" \
            | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'; \
        echo "0x00 };"; \
    done > \$@.tmp && mv \$@.tmp \$@

END

fi
