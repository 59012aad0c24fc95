
/*
 * Copyright (C) mcds authors
 *
 *   ledger | known numbers, in sets of 8 | heads | slots
 *
 * A known number has its place in one set; the number that was learned the
 * longest time ago makes room.  Sums are in chains of slots, which begin at a
 * head; the rest of a long key is in further slots.  Slots refer to each other
 * by their numbers, 0 for none.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>
#include <signal.h>
#include "ngx_mcds.h"
#include "ngx_mcds_ledger.h"
#include "ngx_mcds_hash.h"


#define NGX_MCDS_LEDGER_WAYS      8
#define NGX_MCDS_LEDGER_ACCOUNTS  32

#define NGX_MCDS_LEDGER_SLOT      128

/* the number of slots examined while the mutex is held */
#define NGX_MCDS_LEDGER_STEP      256

/* after so many generations an unused account may be replaced */
#define NGX_MCDS_LEDGER_OLD       16

/* the longest delay of a reply, and until an owner counts as dead; ms */
#define NGX_MCDS_LEDGER_LATE      1000
#define NGX_MCDS_LEDGER_DEAD      5000


typedef struct {
    uint64_t                  id;         /* 0: empty */
    uint64_t                  value;
    uint64_t                  time;
} ngx_mcds_known_t;


typedef struct {
    uint32_t                  next;       /* in the chain, or of free slots */
    uint32_t                  more;       /* slot with the rest of the key */
    u_char                    account;    /* 0: free, or the rest of a key */
    u_char                    flags;
    uint16_t                  len;        /* of the whole key */
    uint32_t                  ttl;

    uint64_t                  id;
    int64_t                   total;      /* of all additions */

    union {
        struct {
            int64_t           marked;     /* total when marked for the batch */
            int64_t           posted;     /* total that is acknowledged */
            uint64_t          batch;
        } post;

        struct {
            uint64_t          initial;
            time_t            since;
        } take;
    } u;

    u_char                    key[8];
} ngx_mcds_slot_t;


#define NGX_MCDS_LEDGER_INLINE                                                \
    (NGX_MCDS_LEDGER_SLOT - offsetof(ngx_mcds_slot_t, key))

/* the rest of a key begins after the field "account" */
#define NGX_MCDS_LEDGER_REST                                                  \
    (NGX_MCDS_LEDGER_SLOT - offsetof(ngx_mcds_slot_t, account) - 1)


struct ngx_mcds_ledger_s {
    ngx_shmtx_t              *mutex;
    uint64_t                  secret[2];
    u_char                    name[NGX_MCDS_LEDGER_ID];
    uint64_t                  sequence;   /* number of the last batch */

    ngx_mcds_known_t         *known;
    ngx_uint_t                nsets;

    uint32_t                 *heads;
    ngx_uint_t                nheads;     /* a power of two */

    u_char                   *slots;      /* slot 0 is not used */
    ngx_uint_t                nslots;
    ngx_uint_t                nfree;
    uint32_t                  free;

    /* account 0 is not used */
    ngx_mcds_account_t        accounts[NGX_MCDS_LEDGER_ACCOUNTS + 1];
};


#define ngx_mcds_ledger_slot(ledger, n)                                       \
    ((ngx_mcds_slot_t *) ((ledger)->slots                                     \
                          + (size_t) (n) * NGX_MCDS_LEDGER_SLOT))

#define ngx_mcds_ledger_rest(slot)  (&(slot)->account + 1)

#define ngx_mcds_ledger_head(ledger, id)                                      \
    (&(ledger)->heads[(id) & ((ledger)->nheads - 1)])


static void ngx_mcds_ledger_seed(ngx_mcds_ledger_t *ledger);
static uint64_t ngx_mcds_ledger_hash(ngx_mcds_ledger_t *ledger,
    uint64_t tweak, u_char *p, size_t len);
static ngx_mcds_known_t *ngx_mcds_ledger_find_known(ngx_mcds_ledger_t *ledger,
    uint64_t id);
static ngx_mcds_slot_t *ngx_mcds_ledger_find(ngx_mcds_ledger_t *ledger,
    ngx_uint_t account, uint64_t id, ngx_str_t *key);
static ngx_uint_t ngx_mcds_ledger_is_key(ngx_mcds_ledger_t *ledger,
    ngx_mcds_slot_t *slot, ngx_str_t *key);
static ngx_mcds_slot_t *ngx_mcds_ledger_create(ngx_mcds_ledger_t *ledger,
    ngx_uint_t account, uint64_t id, ngx_str_t *key);
static uint32_t ngx_mcds_ledger_alloc(ngx_mcds_ledger_t *ledger);
static void ngx_mcds_ledger_free(ngx_mcds_ledger_t *ledger, uint32_t n);
static void ngx_mcds_ledger_remove(ngx_mcds_ledger_t *ledger, uint32_t n);
static void ngx_mcds_ledger_show(ngx_mcds_ledger_t *ledger,
    ngx_mcds_slot_t *slot, ngx_mcds_ledger_item_t *item, u_char *buf);


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


static uint64_t
ngx_mcds_ledger_hash(ngx_mcds_ledger_t *ledger, uint64_t tweak, u_char *p,
    size_t len)
{
    return ngx_mcds_siphash(ledger->secret[0], ledger->secret[1] ^ tweak, p,
                            len);
}


uint64_t
ngx_mcds_ledger_known(ngx_mcds_ledger_t *ledger, uint64_t id)
{
    uint64_t           value;
    ngx_mcds_known_t  *known;

    ngx_shmtx_lock(ledger->mutex);

    known = ngx_mcds_ledger_find_known(ledger, id);
    value = (known->id == id) ? known->value : 0;

    ngx_shmtx_unlock(ledger->mutex);

    return value;
}


uint64_t
ngx_mcds_ledger_heard(ngx_mcds_ledger_t *ledger, uint64_t id, ngx_msec_t *age)
{
    uint64_t           now, value;
    ngx_mcds_known_t  *known;

    now = ngx_mcds_clock(ngx_current_msec);

    ngx_shmtx_lock(ledger->mutex);

    known = ngx_mcds_ledger_find_known(ledger, id);

    value = 0;
    *age = 0;

    if (known->id == id) {
        value = known->value;
        *age = (now > known->time) ? now - known->time : 0;
    }

    ngx_shmtx_unlock(ledger->mutex);

    return value;
}


void
ngx_mcds_ledger_learn(ngx_mcds_ledger_t *ledger, uint64_t id, uint64_t value,
    ngx_msec_t sent)
{
    ngx_mcds_known_t  *known;

    ngx_shmtx_lock(ledger->mutex);

    known = ngx_mcds_ledger_find_known(ledger, id);

    if (known->id != id) {
        known->id = 0;
        ngx_memory_barrier();

        known->value = value;
        known->time = ngx_mcds_clock(ngx_current_msec);
        ngx_memory_barrier();

        known->id = id;

    } else if (value >= known->value
               || ngx_mcds_clock(sent) > known->time + NGX_MCDS_LEDGER_LATE)
    {
        known->value = value;
        known->time = ngx_mcds_clock(ngx_current_msec);
    }

    ngx_shmtx_unlock(ledger->mutex);
}


void
ngx_mcds_ledger_lower(ngx_mcds_ledger_t *ledger, uint64_t id, uint64_t value)
{
    ngx_mcds_known_t  *known;

    ngx_shmtx_lock(ledger->mutex);

    known = ngx_mcds_ledger_find_known(ledger, id);

    if (known->id == id && value < known->value) {
        known->value = value;
        known->time = ngx_mcds_clock(ngx_current_msec);
    }

    ngx_shmtx_unlock(ledger->mutex);
}


/* Returns the known number of the id, or the one that it may replace. */

static ngx_mcds_known_t *
ngx_mcds_ledger_find_known(ngx_mcds_ledger_t *ledger, uint64_t id)
{
    ngx_uint_t         i;
    ngx_mcds_known_t  *known, *oldest;

    known = ledger->known + (id % ledger->nsets) * NGX_MCDS_LEDGER_WAYS;
    oldest = known;

    for (i = 0; i < NGX_MCDS_LEDGER_WAYS; i++, known++) {

        if (known->id == id) {
            return known;
        }

        if (oldest->id
            && (known->id == 0
                || known->time < oldest->time))
        {
            oldest = known;
        }
    }

    return oldest;
}


ngx_int_t
ngx_mcds_ledger_add(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account,
    ngx_mcds_ledger_item_t *item)
{
    uint64_t          id;
    ngx_int_t         rc;
    ngx_uint_t        n, clean;
    ngx_mcds_slot_t  *slot;

    n = account - ledger->accounts;
    id = ngx_mcds_ledger_hash(ledger, n, item->key.data, item->key.len);

    ngx_shmtx_lock(ledger->mutex);

    clean = !ngx_mcds_account_dirty(account);

    slot = ngx_mcds_ledger_find(ledger, n, id, &item->key);

    if (slot == NULL && item->key.len <= NGX_MCDS_LEDGER_KEY) {
        slot = ngx_mcds_ledger_create(ledger, n, id, &item->key);
    }

    rc = slot ? NGX_OK : NGX_BUSY;

    if (slot) {

        if (clean) {
            account->since = ngx_current_msec;
        }

        /* first, so that the account is never clean with a sum in it */

        account->added++;
        ngx_memory_barrier();

        slot->total += item->delta;

    } else {
        account->lost += (item->delta < 0) ? -item->delta : item->delta;
    }

    if (slot && item->flags) {
        slot->u.take.initial = item->initial;
        slot->flags = item->flags;    /* u is not "post" any more */
        ngx_memory_barrier();

        slot->u.take.since = ngx_time();
        slot->ttl = item->ttl;
    }

    ngx_shmtx_unlock(ledger->mutex);

    return rc;
}


static ngx_mcds_slot_t *
ngx_mcds_ledger_find(ngx_mcds_ledger_t *ledger, ngx_uint_t account,
    uint64_t id, ngx_str_t *key)
{
    uint32_t          n;
    ngx_mcds_slot_t  *slot;

    for (n = *ngx_mcds_ledger_head(ledger, id); n; n = slot->next) {
        slot = ngx_mcds_ledger_slot(ledger, n);

        if (slot->id == id
            && slot->account == account
            && slot->len == key->len
            && ngx_mcds_ledger_is_key(ledger, slot, key))
        {
            return slot;
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_mcds_ledger_is_key(ngx_mcds_ledger_t *ledger, ngx_mcds_slot_t *slot,
    ngx_str_t *key)
{
    size_t   len, rest;
    u_char  *p;

    p = key->data;
    rest = key->len;
    len = ngx_min(rest, NGX_MCDS_LEDGER_INLINE);

    if (ngx_memcmp(slot->key, p, len) != 0) {
        return 0;
    }

    while (rest > len) {
        p += len;
        rest -= len;
        len = ngx_min(rest, NGX_MCDS_LEDGER_REST);

        slot = ngx_mcds_ledger_slot(ledger, slot->more);

        if (ngx_memcmp(ngx_mcds_ledger_rest(slot), p, len) != 0) {
            return 0;
        }
    }

    return 1;
}


static ngx_mcds_slot_t *
ngx_mcds_ledger_create(ngx_mcds_ledger_t *ledger, ngx_uint_t account,
    uint64_t id, ngx_str_t *key)
{
    size_t            len, rest;
    u_char           *p;
    uint32_t          n, more, *head;
    ngx_mcds_slot_t  *slot, *last;

    len = ngx_min(key->len, NGX_MCDS_LEDGER_INLINE);
    rest = key->len - len;

    if (ledger->nfree
        < 1 + (rest + NGX_MCDS_LEDGER_REST - 1) / NGX_MCDS_LEDGER_REST)
    {
        return NULL;
    }

    n = ngx_mcds_ledger_alloc(ledger);
    slot = ngx_mcds_ledger_slot(ledger, n);

    ngx_memzero(slot, NGX_MCDS_LEDGER_SLOT);

    slot->id = id;
    slot->len = key->len;
    slot->account = account;
    ngx_memcpy(slot->key, key->data, len);

    last = slot;

    for (p = key->data + len; rest; p += len, rest -= len) {
        len = ngx_min(rest, NGX_MCDS_LEDGER_REST);

        more = ngx_mcds_ledger_alloc(ledger);
        last->more = more;

        last = ngx_mcds_ledger_slot(ledger, more);
        last->more = 0;

        ngx_memcpy(ngx_mcds_ledger_rest(last), p, len);
    }

    head = ngx_mcds_ledger_head(ledger, id);

    slot->next = *head;
    ngx_memory_barrier();

    *head = n;

    return slot;
}


/* nfree slots are free, or more if a worker was killed in this function */

static uint32_t
ngx_mcds_ledger_alloc(ngx_mcds_ledger_t *ledger)
{
    uint32_t  n;

    n = ledger->free;

    ledger->nfree--;
    ngx_memory_barrier();

    ledger->free = ngx_mcds_ledger_slot(ledger, n)->next;

    return n;
}


static void
ngx_mcds_ledger_free(ngx_mcds_ledger_t *ledger, uint32_t n)
{
    ngx_mcds_slot_t  *slot;

    slot = ngx_mcds_ledger_slot(ledger, n);

    slot->account = 0;
    slot->next = ledger->free;
    ngx_memory_barrier();

    ledger->free = n;
    ngx_memory_barrier();

    ledger->nfree++;
}


static void
ngx_mcds_ledger_remove(ngx_mcds_ledger_t *ledger, uint32_t n)
{
    uint32_t         *link, more;
    ngx_mcds_slot_t  *slot;

    slot = ngx_mcds_ledger_slot(ledger, n);

    for (link = ngx_mcds_ledger_head(ledger, slot->id);
         *link != n;
         link = &ngx_mcds_ledger_slot(ledger, *link)->next)
    {
        if (*link == 0) {

            /* a worker was killed before the slot was in the chain */

            slot->account = 0;
            return;
        }
    }

    *link = slot->next;
    ngx_memory_barrier();

    do {
        more = slot->more;

        ngx_mcds_ledger_free(ledger, n);

        n = more;
        slot = ngx_mcds_ledger_slot(ledger, n);

    } while (n);
}


ngx_uint_t
ngx_mcds_ledger_crowded(ngx_mcds_ledger_t *ledger)
{
    return ledger->nfree < ledger->nslots / 4;
}


uint64_t
ngx_mcds_ledger_left(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account)
{
    int64_t           left;
    uint64_t          sum;
    ngx_uint_t        n, i;
    ngx_mcds_slot_t  *slot;

    n = account - ledger->accounts;
    sum = 0;

    ngx_shmtx_lock(ledger->mutex);

    for (i = 1; i <= ledger->nslots; i++) {
        slot = ngx_mcds_ledger_slot(ledger, i);

        if (slot->account == n) {
            left = slot->total - (slot->flags ? 0 : slot->u.post.posted);
            sum += (left < 0) ? -left : left;
        }
    }

    ngx_shmtx_unlock(ledger->mutex);

    return sum;
}


uint64_t
ngx_mcds_ledger_forget(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account)
{
    uint64_t  left;

    left = ngx_mcds_ledger_left(ledger, account);

    account->kind = 0;

    return left;
}


uint64_t
ngx_mcds_ledger_forget_all(ngx_mcds_ledger_t *ledger)
{
    uint64_t    left;
    ngx_uint_t  i;

    left = 0;

    for (i = 1; i <= NGX_MCDS_LEDGER_ACCOUNTS; i++) {
        if (ledger->accounts[i].kind) {
            left += ngx_mcds_ledger_forget(ledger, &ledger->accounts[i]);
        }
    }

    return left;
}


ngx_int_t
ngx_mcds_ledger_take(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account,
    ngx_uint_t *cursor, ngx_mcds_ledger_item_t *item, u_char *buf)
{
    time_t            passed;
    ngx_int_t         rc;
    ngx_uint_t        n, i, end;
    ngx_mcds_slot_t  *slot;

    n = account - ledger->accounts;

    ngx_shmtx_lock(ledger->mutex);

    end = ngx_min(*cursor + NGX_MCDS_LEDGER_STEP, ledger->nslots);
    rc = (end == ledger->nslots) ? NGX_DONE : NGX_AGAIN;

    for (i = *cursor + 1; i <= end; i++) {
        slot = ngx_mcds_ledger_slot(ledger, i);

        if (slot->account != n) {
            continue;
        }

        ngx_mcds_ledger_show(ledger, slot, item, buf);

        item->delta = slot->total;
        item->initial = slot->u.take.initial;
        item->flags = slot->flags;
        item->ttl = slot->ttl;

        passed = ngx_time() - slot->u.take.since;

        ngx_mcds_ledger_remove(ledger, i);

        /* a counter that would have expired by now need not be created */

        if (item->ttl && passed >= (time_t) item->ttl) {
            continue;
        }

        if (item->ttl && passed > 0) {
            item->ttl -= passed;
        }

        if (item->delta) {
            end = i;
            rc = NGX_OK;
            break;
        }
    }

    *cursor = end;

    ngx_shmtx_unlock(ledger->mutex);

    return rc;
}


ngx_int_t
ngx_mcds_ledger_mark(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account,
    ngx_uint_t fresh, ngx_uint_t *cursor, ngx_mcds_ledger_item_t *item,
    u_char *buf)
{
    ngx_int_t         rc;
    ngx_uint_t        n, i, end;
    ngx_mcds_slot_t  *slot;

    n = account - ledger->accounts;

    ngx_shmtx_lock(ledger->mutex);

    end = ngx_min(*cursor + NGX_MCDS_LEDGER_STEP, ledger->nslots);
    rc = (end == ledger->nslots) ? NGX_DONE : NGX_AGAIN;

    for (i = *cursor + 1; i <= end; i++) {
        slot = ngx_mcds_ledger_slot(ledger, i);

        if (slot->account != n) {
            continue;
        }

        /* the acknowledgment of a closed batch was interrupted */

        if (fresh && slot->u.post.batch != account->batch) {
            slot->u.post.batch = account->batch;
            ngx_memory_barrier();

            slot->u.post.marked = slot->total;
        }

        if (slot->u.post.batch != account->batch
            || slot->u.post.marked == slot->u.post.posted)
        {
            continue;
        }

        ngx_mcds_ledger_show(ledger, slot, item, buf);

        item->delta = slot->u.post.marked - slot->u.post.posted;

        end = i;
        rc = NGX_OK;
        break;
    }

    *cursor = end;

    ngx_shmtx_unlock(ledger->mutex);

    return rc;
}


static void
ngx_mcds_ledger_show(ngx_mcds_ledger_t *ledger, ngx_mcds_slot_t *slot,
    ngx_mcds_ledger_item_t *item, u_char *buf)
{
    size_t   len, rest;
    u_char  *p;

    item->key.data = buf;
    item->key.len = slot->len;

    rest = slot->len;
    len = ngx_min(rest, NGX_MCDS_LEDGER_INLINE);

    p = ngx_cpymem(buf, slot->key, len);

    for (rest -= len; rest; rest -= len) {
        slot = ngx_mcds_ledger_slot(ledger, slot->more);
        len = ngx_min(rest, NGX_MCDS_LEDGER_REST);

        p = ngx_cpymem(p, ngx_mcds_ledger_rest(slot), len);
    }
}


ngx_uint_t
ngx_mcds_ledger_own(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account)
{
    ngx_uint_t  own;

    ngx_shmtx_lock(ledger->mutex);

    own = (account->owner == 0
           || account->owner == ngx_pid
           || (ngx_msec_int_t) (ngx_current_msec - account->alive)
              > NGX_MCDS_LEDGER_DEAD
           || (kill(account->owner, 0) == -1 && ngx_errno == ESRCH));

    if (own) {
        account->owner = ngx_pid;
        account->alive = ngx_current_msec;
    }

    ngx_shmtx_unlock(ledger->mutex);

    return own;
}


void
ngx_mcds_ledger_disown(ngx_mcds_account_t *account)
{
    if (account->owner == ngx_pid) {
        account->owner = 0;
    }
}


ngx_uint_t
ngx_mcds_ledger_open(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account)
{
    ngx_uint_t  fresh;

    ngx_shmtx_lock(ledger->mutex);

    fresh = (account->batch == 0);

    if (fresh) {
        account->batch = ++ledger->sequence;
    }

    ngx_shmtx_unlock(ledger->mutex);

    return fresh;
}


void
ngx_mcds_ledger_ack(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account,
    uint64_t batch)
{
    ngx_uint_t        n, i, end;
    ngx_mcds_slot_t  *slot;

    n = account - ledger->accounts;

    for (i = 1; i <= ledger->nslots; /* void */ ) {

        ngx_shmtx_lock(ledger->mutex);

        end = ngx_min(i + NGX_MCDS_LEDGER_STEP - 1, ledger->nslots);

        for ( /* void */ ; i <= end; i++) {
            slot = ngx_mcds_ledger_slot(ledger, i);

            if (slot->account != n || slot->u.post.batch != batch) {
                continue;
            }

            slot->u.post.posted = slot->u.post.marked;
            ngx_memory_barrier();

            slot->u.post.batch = 0;

            if (slot->total == slot->u.post.posted) {
                ngx_mcds_ledger_remove(ledger, i);
            }
        }

        ngx_shmtx_unlock(ledger->mutex);
    }

    if (account->batch == batch) {
        account->batch = 0;
    }
}


void
ngx_mcds_ledger_check(ngx_mcds_ledger_t *ledger, ngx_mcds_account_t *account)
{
    uint64_t    added;
    ngx_uint_t  n, i, end, found;

    n = account - ledger->accounts;
    added = account->added;
    found = 0;

    for (i = 1; i <= ledger->nslots && !found; /* void */ ) {

        ngx_shmtx_lock(ledger->mutex);

        end = ngx_min(i + NGX_MCDS_LEDGER_STEP - 1, ledger->nslots);

        for ( /* void */ ; i <= end; i++) {
            found |= (ngx_mcds_ledger_slot(ledger, i)->account == n);
        }

        ngx_shmtx_unlock(ledger->mutex);
    }

    if (!found) {
        account->clean = added;
    }
}


u_char *
ngx_mcds_ledger_batch_name(ngx_mcds_ledger_t *ledger, uint64_t batch,
    u_char *p)
{
    p = ngx_hex_dump(p, ledger->name, NGX_MCDS_LEDGER_ID);

    return ngx_sprintf(p, "-%uL", batch);
}
