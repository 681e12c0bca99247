/*
 * A name says nothing about where it leads: whoever answers for it may name an address behind which
 * this host, its neighbours or its cloud's metadata are. So addresses are judged, too:
 *
 *   the rule                          may be at
 *   ours (pypi.org, …)                addresses of the internet, but none of this host
 *   the operator's, a name            the same, private addresses and those of this host; never at
 *                                     loopback or link-local ones (but "localhost" is at loopback)
 *   the operator's, an address        that one, whatever it is
 *
 * An IPv4 address within an IPv6 one (mapped, translated, 6to4) is judged as what it is. Of IPv6
 * only what is assigned to the internet counts as that.
 */
#include "worker/door/rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/alloc.h"

enum address_kind { ADDRESS_PUBLIC, ADDRESS_PRIVATE, ADDRESS_LOOPBACK, ADDRESS_LINK, ADDRESS_NONE };

static const char *const kind_texts[] = {
    [ADDRESS_PUBLIC] = "an address of this host", [ADDRESS_PRIVATE] = "a private address",
    [ADDRESS_LOOPBACK] = "a loopback address",    [ADDRESS_LINK] = "a link-local address",
    [ADDRESS_NONE] = "no address of a server",
};

struct prefix {
    enum address_kind kind;
    unsigned bits;
    uint8_t bytes[8];
};

/* RFC 6890 and its registry; the first that fits counts. */
static const struct prefix prefixes4[] = {
    {ADDRESS_NONE, 8, {0}},
    {ADDRESS_PRIVATE, 8, {10}},
    {ADDRESS_PRIVATE, 10, {100, 64}},
    {ADDRESS_LOOPBACK, 8, {127}},
    {ADDRESS_LINK, 16, {169, 254}},
    {ADDRESS_PRIVATE, 12, {172, 16}},
    {ADDRESS_NONE, 24, {192, 0, 0}},
    {ADDRESS_NONE, 24, {192, 0, 2}},
    {ADDRESS_PRIVATE, 16, {192, 168}},
    {ADDRESS_PRIVATE, 15, {198, 18}},
    {ADDRESS_NONE, 24, {198, 51, 100}},
    {ADDRESS_NONE, 24, {203, 0, 113}},
    {ADDRESS_NONE, 3, {224}},
    {ADDRESS_PUBLIC, 0, {0}},
};

static const struct prefix prefixes6[] = {
    {ADDRESS_PRIVATE, 48, {0, 0x64, 0xff, 0x9b, 0, 1}}, /* translated, within a site */
    {ADDRESS_NONE, 32, {0x20, 0x01, 0, 0}},             /* Teredo */
    {ADDRESS_NONE, 32, {0x20, 0x01, 0x0d, 0xb8}},
    {ADDRESS_PUBLIC, 3, {0x20}},
    {ADDRESS_PRIVATE, 7, {0xfc}},
    {ADDRESS_LINK, 10, {0xfe, 0x80}},
    {ADDRESS_NONE, 0, {0}},
};

static bool has_prefix(const uint8_t *address, const struct prefix *p)
{
    unsigned whole = p->bits / 8;
    unsigned rest = p->bits % 8;
    if (memcmp(address, p->bytes, whole) != 0) {
        return false;
    }
    return rest == 0 || ((address[whole] ^ p->bytes[whole]) >> (8 - rest)) == 0;
}

static enum address_kind kind_by(const struct prefix *prefixes, const uint8_t *address)
{
    while (!has_prefix(address, prefixes)) {
        prefixes++; /* the last one fits all */
    }
    return prefixes->kind;
}

/* Where an IPv6 address holds an IPv4 one; NULL: it does not. */
static const uint8_t *inner_of(const uint8_t a[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t translated[12] = {0, 0x64, 0xff, 0x9b};
    if (memcmp(a, mapped, sizeof(mapped)) == 0 || memcmp(a, translated, sizeof(translated)) == 0) {
        return a + 12;
    }
    return a[0] == 0x20 && a[1] == 0x02 ? a + 2 : NULL;
}

static enum address_kind address_kind_of(const struct sockaddr *address)
{
    static const uint8_t loopback[16] = {[15] = 1};
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        return kind_by(prefixes4, (const uint8_t *)&v4->sin_addr);
    }
    if (address->sa_family != AF_INET6) {
        return ADDRESS_NONE;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    const uint8_t *bytes = v6->sin6_addr.s6_addr;
    const uint8_t *inner = inner_of(bytes);
    if (inner != NULL) {
        return kind_by(prefixes4, inner);
    }
    if (memcmp(bytes, loopback, sizeof(loopback)) == 0) {
        return ADDRESS_LOOPBACK;
    }
    return kind_by(prefixes6, bytes);
}

static bool same_address(const struct sockaddr *a, const uv_interface_address_t *b)
{
    if (a->sa_family == AF_INET && b->address.address4.sin_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
        return v4->sin_addr.s_addr == b->address.address4.sin_addr.s_addr;
    }
    if (a->sa_family == AF_INET6 && b->address.address4.sin_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;
        return memcmp(&v6->sin6_addr, &b->address.address6.sin6_addr, sizeof(v6->sin6_addr)) == 0;
    }
    return false;
}

/* True as well if that cannot be found out. */
static bool is_of_this_host(const struct sockaddr *address)
{
    uv_interface_address_t *all = NULL;
    int count = 0;
    if (uv_interface_addresses(&all, &count) < 0) {
        return true;
    }
    bool found = false;
    for (int i = 0; i < count && !found; i++) {
        found = same_address(address, &all[i]);
    }
    uv_free_interface_addresses(all, count);
    return found;
}

const char *door_rule_refuses(const struct door_rule *rule, const struct sockaddr *address)
{
    enum address_kind kind = address_kind_of(address);
    bool refused;
    if (rule->kind == DOOR_PUBLIC) {
        refused = kind != ADDRESS_PUBLIC || is_of_this_host(address);
    } else if (rule->at.is_address) {
        refused = false; /* it was asked for as a number, so it is that one */
    } else {
        bool local = kind == ADDRESS_LOOPBACK && authority_is_local(&rule->at);
        refused = kind != ADDRESS_PUBLIC && kind != ADDRESS_PRIVATE && !local;
    }
    return refused ? kind_texts[kind] : NULL;
}

const struct door_rule *door_rules_find(const struct door_rules *r, const struct authority *to)
{
    for (size_t i = 0; i < r->count; i++) {
        if (authority_same(&r->items[i].at, to)) {
            return &r->items[i];
        }
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int take_place(struct door_rule *ret, struct view place, enum door_kind kind,
                      struct err *err)
{
    if (!authority_parse(place, &ret->at) || ret->at.port == 0) {
        return err_set(err, ERR_INVALID, "door: \"%.*s\" is no host with a port", VIEW_ARG(place));
    }
    ret->kind = kind;
    return 0;
}

static int take_auth(struct door_rules *r, struct view text, struct err *err)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < ' ' || text.data[i] >= 0x7f) {
            return err_set(err, ERR_INVALID, "door: the proxy's words are no header");
        }
    }
    r->proxy_auth = alloc_viewdup(text);
    return 0;
}

int door_rules_take(struct door_rules *ret, const struct msg_open *m, struct err *err)
{
    struct door_rules r = {.count = 0};
    if (m->door.count % 2 != 0 || m->door.count / 2 > LIMIT_DOOR_RULES) {
        return err_set(err, ERR_INVALID, "door: at most %d places, two texts each",
                       LIMIT_DOOR_RULES);
    }
    for (; r.count < m->door.count / 2; r.count++) {
        struct view place = m->door.items[2 * r.count];
        struct view kind = m->door.items[2 * r.count + 1];
        if (!view_is(kind, "own") && !view_is(kind, "public")) {
            return err_set(err, ERR_INVALID, "door: there is no kind \"%.*s\"", VIEW_ARG(kind));
        }
        int rc = take_place(&r.items[r.count], place, view_is(kind, "own") ? DOOR_OWN : DOOR_PUBLIC,
                            err);
        if (rc < 0) {
            return rc;
        }
    }
    r.has_proxy = m->door_proxy.len > 0;
    int rc = r.has_proxy ? take_place(&r.proxy, m->door_proxy, DOOR_OWN, err) : 0;
    rc = rc < 0 ? rc : take_auth(&r, m->door_proxy_auth, err);
    if (rc == 0) {
        *ret = r;
    }
    return rc;
}

void door_rules_finish(struct door_rules *r)
{
    free(r->proxy_auth);
    *r = (struct door_rules){.count = 0};
}
