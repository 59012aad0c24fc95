# Copyright (C) mcds authors

# The files of the live page are part of an object, see
# src/status/ngx_http_mcds_status_page.c.

mcds_page=$ngx_addon_dir/src/status/page

cat << END                                                    >> $NGX_MAKEFILE

$NGX_OBJS/addon/status/ngx_http_mcds_status_page.o: \
$mcds_page/page.html $mcds_page/page.css \
$mcds_page/parts.js $mcds_page/page.js

END
