
/*
 * Copyright (C) mcds authors
 *
 * The outbox: shared memory in which this host remembers the last known values
 * of counters and, in an account for each destination, the unsent sums of their
 * changes.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>
#include "ngx_mcds_outbox_core.h"
#include "ngx_mcds_hash.h"


/*
 * the number of reloads after which an empty account (the unsent sums of
 * counters for one destination) that no configuration has used meanwhile may be
 * replaced by a new account
 */
#define NGX_MCDS_OUTBOX_OLD       16


static void ngx_mcds_outbox_seed(ngx_mcds_outbox_t *outbox);


ngx_mcds_outbox_t  *ngx_mcds_outbox;


ngx_mcds_outbox_t *
ngx_mcds_outbox_init(u_char *addr, size_t size, ngx_shmtx_t *mutex)
{
    u_char             *p, *end;
    ngx_uint_t          n;
    ngx_mcds_outbox_t  *outbox;

    outbox = (ngx_mcds_outbox_t *) addr;
    end = addr + size;

    p = ngx_align_ptr(addr + sizeof(ngx_mcds_outbox_t), 64);

    if (p >= end) {
        return NULL;
    }

    outbox->mutex = mutex;
    outbox->known = (ngx_mcds_known_t *) p;
    outbox->nsets = (end - p) / 4
                    / (NGX_MCDS_OUTBOX_WAYS * sizeof(ngx_mcds_known_t));

    p += outbox->nsets * NGX_MCDS_OUTBOX_WAYS * sizeof(ngx_mcds_known_t);

    n = (end - p) / (NGX_MCDS_OUTBOX_SLOT + sizeof(uint32_t));

    if (outbox->nsets == 0 || n < 10) {
        return NULL;
    }

    for (outbox->nheads = 1; outbox->nheads * 2 <= n; outbox->nheads *= 2) {
        /* void */
    }

    outbox->heads = (uint32_t *) p;
    p = ngx_align_ptr(p + outbox->nheads * sizeof(uint32_t), 64);

    outbox->slots = p;
    outbox->nslots = (end - p) / NGX_MCDS_OUTBOX_SLOT - 1;

    ngx_mcds_outbox_seed(outbox);
    ngx_mcds_outbox_sweep(outbox);

    return outbox;
}


static void
ngx_mcds_outbox_seed(ngx_mcds_outbox_t *outbox)
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

    /*
     * the time adds some entropy to the name of the outbox (the memory of
     * unsent changes of counters), and to the secret of its hashes, even
     * without /dev/urandom
     */

    ngx_gettimeofday(&tv);

    for (i = 0; i < 2; i++) {
        ngx_md5_init(&md5);
        ngx_md5_update(&md5, bytes, sizeof(bytes));
        ngx_md5_update(&md5, &tv, sizeof(struct timeval));
        ngx_md5_update(&md5, &ngx_pid, sizeof(ngx_pid_t));
        ngx_md5_update(&md5, &i, sizeof(ngx_uint_t));
        ngx_md5_final(i ? outbox->name : (u_char *) outbox->secret, &md5);
    }
}


/*
 * Frees the slots of the outbox, each with the sum of one counter, that a
 * killed worker has left over: a slot is free unless it is in a hash chain.
 */

void
ngx_mcds_outbox_sweep(ngx_mcds_outbox_t *outbox)
{
    u_char           *used;
    uint32_t          n, more;
    ngx_uint_t        i;
    ngx_mcds_slot_t  *slot;

    used = ngx_calloc(outbox->nslots + 1, ngx_cycle->log);
    if (used == NULL) {
        return;
    }

    ngx_shmtx_lock(outbox->mutex);

    for (i = 0; i < outbox->nheads; i++) {

        for (n = outbox->heads[i]; n; n = slot->next) {
            slot = ngx_mcds_outbox_slot(outbox, n);
            used[n] = 1;

            for (more = slot->more;
                 more;
                 more = ngx_mcds_outbox_slot(outbox, more)->more)
            {
                used[more] = 1;
            }
        }
    }

    outbox->free = 0;
    outbox->nfree = 0;

    for (n = outbox->nslots; n; n--) {
        if (!used[n]) {
            ngx_mcds_outbox_free(outbox, n);
        }
    }

    ngx_shmtx_unlock(outbox->mutex);

    ngx_free(used);
}


ngx_mcds_account_t *
ngx_mcds_outbox_account(ngx_mcds_outbox_t *outbox, ngx_uint_t kind,
    ngx_str_t *name, ngx_uint_t generation)
{
    u_char               hash[16];
    ngx_md5_t            md5;
    ngx_str_t            digest;
    ngx_uint_t           i;
    ngx_mcds_account_t  *account, *unused;

    if (name->len > NGX_MCDS_OUTBOX_NAME) {
        ngx_md5_init(&md5);
        ngx_md5_update(&md5, name->data, name->len);
        ngx_md5_final(hash, &md5);

        digest.data = hash;
        digest.len = sizeof(hash);
        name = &digest;
    }

    ngx_shmtx_lock(outbox->mutex);

    unused = NULL;

    for (i = 1; i <= NGX_MCDS_OUTBOX_ACCOUNTS; i++) {
        account = &outbox->accounts[i];

        if (account->kind == kind
            && account->len == name->len
            && ngx_memcmp(account->name, name->data, name->len) == 0)
        {
            account->generation = ngx_max(account->generation, generation);
            goto done;
        }

        if (account->kind == 0) {

            if (unused == NULL || unused->kind) {
                unused = account;
            }

        } else if (unused == NULL
                   && !ngx_mcds_account_dirty(account)
                   && account->generation + NGX_MCDS_OUTBOX_OLD < generation)
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

    ngx_shmtx_unlock(outbox->mutex);

    return account;
}


uint64_t
ngx_mcds_outbox_id(ngx_mcds_outbox_t *outbox, ngx_str_t *pool,
    ngx_str_t *prefix, ngx_str_t *key)
{
    uint64_t  id;

    id = ngx_mcds_outbox_hash(outbox, 0, pool->data, pool->len);

    if (prefix->len) {
        id = ngx_mcds_outbox_hash(outbox, id, prefix->data, prefix->len);
    }

    id = ngx_mcds_outbox_hash(outbox, id, key->data, key->len);

    return id ? id : 1;
}


uint64_t
ngx_mcds_outbox_hash(ngx_mcds_outbox_t *outbox, uint64_t tweak, u_char *p,
    size_t len)
{
    return ngx_mcds_siphash(outbox->secret[0], outbox->secret[1] ^ tweak, p,
                            len);
}
