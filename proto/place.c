/*
 * The codec sees to it that an ENGINE_PLACE has its fields; that they make sense together is asked
 * here, on both ways, so nothing is sent that its reader would refuse.
 */
#include "proto/place.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "proto/codec.h"

_Static_assert(PLACE_ADDRESS_MAX == LIMIT_PATH, "an address fits into its field");

/* Whatever was found first, the caller gets this code. */
static int refuse_place(enum err_code code, struct err *err)
{
    if (err != NULL) {
        err->code = (int)code;
    }
    return -(int)code;
}

int place_encode(const struct place *p, struct view_list *ret, struct err *err)
{
    CLEANUP_BUF struct buf bytes;
    struct msg m = {.type = MSG_ENGINE_PLACE};
    buf_init(&bytes, LIMIT_ITEM);
    int rc = place_check(p, err);
    if (rc == 0 && p->kind != PLACE_NONE) {
        m.engine_place.kind = (uint64_t)p->kind;
        m.engine_place.address = view_of(p->address);
        m.engine_place.verify = p->verify;
        m.engine_place.ca_file = view_of(p->ca_file);
        m.engine_place.cert_file = view_of(p->cert_file);
        m.engine_place.key_file = view_of(p->key_file);
        rc = msg_encode(&bytes, &m, err);
    }
    if (rc < 0) {
        return refuse_place(ERR_INVALID, err);
    }
    struct view item = view_bytes(bytes.data, bytes.len);
    *ret = alloc_listdup((struct view_list){&item, p->kind != PLACE_NONE ? 1 : 0});
    return 0;
}

struct view_list place_configured(const char *backend, const char *text)
{
    const struct backend_row *row = backend_row_find(backend);
    struct place named = {.kind = PLACE_NAMED, .address = text};
    struct view_list list = {NULL, 0};
    if (row != NULL && row->has_engine && text[0] != '\0') {
        err_ignore(place_encode(&named, &list, NULL));
    }
    return list;
}

static const char *text_or_null(struct view v)
{
    return v.len > 0 ? alloc_viewdup(v) : NULL;
}

int place_decode(struct view_list list, struct place *ret, struct err *err)
{
    struct msg m;
    if (list.count == 0) {
        *ret = (struct place){.kind = PLACE_NONE};
        return 0;
    }
    if (list.count > 1) {
        return err_set(err, ERR_PROTOCOL, "an engine cannot be in %zu places", list.count);
    }
    int rc = msg_decode(MSG_LINK_W, list.items[0].data, list.items[0].len, &m, err);
    if (rc < 0) {
        return rc;
    }
    const struct msg_engine_place *p = &m.engine_place;
    struct place place = {.kind = PLACE_NONE};
    if (m.type == MSG_ENGINE_PLACE && p->kind != PLACE_NONE) {
        place = (struct place){
            .kind = (enum place_kind)p->kind,
            .address = text_or_null(p->address),
            .verify = p->verify,
            .ca_file = text_or_null(p->ca_file),
            .cert_file = text_or_null(p->cert_file),
            .key_file = text_or_null(p->key_file),
        };
        rc = place_check(&place, err);
    } else {
        rc = err_set(err, ERR_PROTOCOL, "that is no place");
    }
    msg_finish(&m);
    if (rc < 0) {
        place_finish(&place);
        return refuse_place(ERR_PROTOCOL, err);
    }
    *ret = place;
    return 0;
}

char *place_list_text(struct view_list list)
{
    struct place place = {.kind = PLACE_NONE};
    err_ignore(place_decode(list, &place, NULL));
    char *text = place_text(&place);
    place_finish(&place);
    return text;
}
