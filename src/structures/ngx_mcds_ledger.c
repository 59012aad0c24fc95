
/*
 * Copyright (C) mcds authors
 *
 * The ledger itself, and its accounts.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>
#include "ngx_mcds_ledger_core.h"
#include "ngx_mcds_hash.h"


/* after so many generations an unused account may be replaced */
#define NGX_MCDS_LEDGER_OLD       16


static void ngx_mcds_ledger_seed(ngx_mcds_ledger_t *ledger);


ngx_mcds_ledger_t  *ngx_mcds_ledger;


ngx_mcds_ledger_t *
ngx_mcds_ledger_init(u_char *addr, size_t size, ngx_shmtx_t *mutex)
{
    u_char             *p, *end;
    ngx_uint_t          n;
    ngx_mcds_ledger_t  *ledger;

    ledger = (ngx_mcds_ledger_t *) addr;
    end = addr + size;

    p = ngx_align_ptr(addr + sizeof(ngx_mcds_ledger_t), 64);

    if (p >= end) {
        return NULL;
    }

    ledger->mutex = mutex;
    ledger->known = (ngx_mcds_known_t *) p;
    ledger->nsets = (end - p) / 4
                    / (NGX_MCDS_LEDGER_WAYS * sizeof(ngx_mcds_known_t));

    p += ledger->nsets * NGX_MCDS_LEDGER_WAYS * sizeof(ngx_mcds_known_t);

    n = (end - p) / (NGX_MCDS_LEDGER_SLOT + sizeof(uint32_t));

    if (ledger->nsets == 0 || n < 10) {
        return NULL;
    }

    for (ledger->nheads = 1; ledger->nheads * 2 <= n; ledger->nheads *= 2) {
        /* void */
    }

    ledger->heads = (uint32_t *) p;
    p = ngx_align_ptr(p + ledger->nheads * sizeof(uint32_t), 64);

    ledger->slots = p;
    ledger->nslots = (end - p) / NGX_MCDS_LEDGER_SLOT - 1;

    ngx_mcds_ledger_seed(ledger);
    ngx_mcds_ledger_sweep(ledger);

    return ledger;
}


static void
ngx_mcds_ledger_seed(ngx_mcds_ledger_t *ledger)
{
    u_char          bytes[64];
    ngx_fd_t        fd;
    ngx_md5_t       md5;
    ngx_uint_t      i;
    struct timeval  tv;

    ngx_memzero(bytes, sizeof(bytes));

    fd = ngx_open_file("/dev/urandom", NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd != NGX_INVALID_FILE) {
        if (ngx_read_fd(fd, bytes, sizeof(bytes)) == -1) {
            ngx_memzero(bytes, sizeof(bytes));
        }

        (void) ngx_close_file(fd);
    }

    /* some entropy even without this device */

    ngx_gettimeofday(&tv);

    for (i = 0; i < 2; i++) {
        ngx_md5_init(&md5);
        ngx_md5_update(&md5, bytes, sizeof(bytes));
        ngx_md5_update(&md5, &tv, sizeof(struct timeval));
        ngx_md5_update(&md5, &ngx_pid, sizeof(ngx_pid_t));
        ngx_md5_update(&md5, &i, sizeof(ngx_uint_t));
        ngx_md5_final(i ? ledger->name : (u_char *) ledger->secret, &md5);
    }
}


/* A slot is free unless it is in a chain. */

void
ngx_mcds_ledger_sweep(ngx_mcds_ledger_t *ledger)
{
    u_char           *used;
    uint32_t          n, more;
    ngx_uint_t        i;
    ngx_mcds_slot_t  *slot;

    used = ngx_calloc(ledger->nslots + 1, ngx_cycle->log);
    if (used == NULL) {
        return;
    }

    ngx_shmtx_lock(ledger->mutex);

    for (i = 0; i < ledger->nheads; i++) {

        for (n = ledger->heads[i]; n; n = slot->next) {
            slot = ngx_mcds_ledger_slot(ledger, n);
            used[n] = 1;

            for (more = slot->more;
                 more;
                 more = ngx_mcds_ledger_slot(ledger, more)->more)
            {
                used[more] = 1;
            }
        }
    }

    ledger->free = 0;
    ledger->nfree = 0;

    for (n = ledger->nslots; n; n--) {
        if (!used[n]) {
            ngx_mcds_ledger_free(ledger, n);
        }
    }

    ngx_shmtx_unlock(ledger->mutex);

    ngx_free(used);
}


ngx_mcds_account_t *
ngx_mcds_ledger_account(ngx_mcds_ledger_t *ledger, ngx_uint_t kind,
    ngx_str_t *name, ngx_uint_t generation)
{
    u_char               hash[16];
    ngx_md5_t            md5;
    ngx_str_t            digest;
    ngx_uint_t           i;
    ngx_mcds_account_t  *account, *unused;

    if (name->len > NGX_MCDS_LEDGER_NAME) {
        ngx_md5_init(&md5);
        ngx_md5_update(&md5, name->data, name->len);
        ngx_md5_final(hash, &md5);

        digest.data = hash;
        digest.len = sizeof(hash);
        name = &digest;
    }

    ngx_shmtx_lock(ledger->mutex);

    unused = NULL;

    for (i = 1; i <= NGX_MCDS_LEDGER_ACCOUNTS; i++) {
        account = &ledger->accounts[i];

        if (account->kind == kind
            && account->len == name->len
            && ngx_memcmp(account->name, name->data, name->len) == 0)
        {
            goto done;
        }

        if (unused == NULL
            && (account->kind == 0
                || (!ngx_mcds_account_dirty(account)
                    && account->generation + NGX_MCDS_LEDGER_OLD
                       < generation)))
        {
            unused = account;
        }
    }

    account = unused;

    if (account) {
        ngx_memzero(account, sizeof(ngx_mcds_account_t));
        ngx_memcpy(account->name, name->data, name->len);
        account->len = name->len;
        account->kind = kind;
        account->generation = generation;
    }

done:

    ngx_shmtx_unlock(ledger->mutex);

    return account;
}


uint64_t
ngx_mcds_ledger_id(ngx_mcds_ledger_t *ledger, ngx_str_t *pool,
    ngx_str_t *key)
{
    uint64_t  id;

    id = ngx_mcds_ledger_hash(ledger, 0, pool->data, pool->len);
    id = ngx_mcds_ledger_hash(ledger, id, key->data, key->len);

    return id ? id : 1;
}


uint64_t
ngx_mcds_ledger_hash(ngx_mcds_ledger_t *ledger, uint64_t tweak, u_char *p,
    size_t len)
{
    return ngx_mcds_siphash(ledger->secret[0], ledger->secret[1] ^ tweak, p,
                            len);
}
