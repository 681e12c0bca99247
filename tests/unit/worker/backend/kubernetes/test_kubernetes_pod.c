/*
 * The body of a pod with the defaults that must not get lost, the agent in parts, and what states
 * of a pod mean.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/kubernetes/agent.h"
#include "worker/backend/kubernetes/end.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/fronts.h"
#include "worker/backend/kubernetes/lease.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/probe.h"
#include "worker/backend/kubernetes/state.h"
#include "worker/backend/kubernetes/stream.h"
#include "worker/backend/owner.h"

static cJSON *parse(const char *text)
{
    cJSON *json = NULL;
    assert_int_equal(json_parse(text, strlen(text), 4u << 20, 64, &json, NULL, NULL), 0);
    return json;
}

/* A member by a path such as "spec.volumes.0.name". */
static const cJSON *at(const cJSON *json, const char *path)
{
    CLEANUP_FREE char *copy = alloc_strdup(path);
    char *save = NULL;
    for (char *part = strtok_r(copy, ".", &save); part != NULL && json != NULL;
         part = strtok_r(NULL, ".", &save)) {
        json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(part)) : json_get(json, part);
    }
    return json;
}

static const char *text_at(const cJSON *json, const char *path)
{
    const cJSON *item = at(json, path);
    assert_true(cJSON_IsString(item));
    return item->valuestring;
}

static struct kube_agent *small_agent(size_t len)
{
    struct kube_agent *agent = NULL;
    char *bytes = alloc_array(len, 1);
    memset(bytes, 'a', len);
    assert_int_equal(kube_agent_of(view_bytes(bytes, len), view_of("start"), &agent, NULL), 0);
    free(bytes);
    return agent;
}

static const struct kube_owner our_pod = {"server-0", "1a2b"};

static cJSON *build(const struct backend_spec *spec)
{
    CLEANUP_FREE char *text = NULL;
    struct kube_agent *agent = small_agent(10);
    assert_int_equal(kube_pod_build(spec, agent, &our_pod, &text, NULL), 0);
    kube_agent_free(agent);
    return parse(text);
}

static bool has_word(const cJSON *list, const char *word)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(item->valuestring, word) == 0) {
            return true;
        }
    }
    return false;
}

static void a_pod_asks_for_nothing_and_is_given_limits(void **state)
{
    struct view env = view_of("GREETING=$(HOME) costs $5");
    struct backend_spec spec = {.id = "abc123",
                                .dir = "/run/x/abc123",
                                .image = "repo/python:3",
                                .runtime = "gvisor",
                                .env = {&env, 1},
                                .lifetime_s = 3600,
                                .pull = true};
    (void)state;
    cJSON *pod = build(&spec);
    assert_string_equal(text_at(pod, "metadata.name"), "cloister-abc123");
    assert_string_equal(text_at(pod, "metadata.ownerReferences.0.name"), "server-0");
    assert_string_equal(text_at(pod, "metadata.ownerReferences.0.uid"), "1a2b");
    assert_true(kube_state_is_of(pod, "abc123"));
    assert_false(kube_state_is_of(pod, "abc1234"));
    const cJSON *p = at(pod, "spec");
    assert_string_equal(text_at(p, "restartPolicy"), "Never");
    assert_string_equal(text_at(p, "runtimeClassName"), "gvisor");
    assert_string_equal(text_at(p, "dnsPolicy"), "None");
    assert_true(at(p, "activeDeadlineSeconds")->valueint > 3600);
    static const char *const off[] = {
        "automountServiceAccountToken", "enableServiceLinks", "hostNetwork", "hostPID", "hostIPC",
        "shareProcessNamespace"};
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        assert_true(cJSON_IsFalse(at(p, off[i])));
    }
    assert_true(cJSON_IsTrue(at(p, "securityContext.runAsNonRoot")));
    assert_true(at(p, "securityContext.runAsUser")->valuedouble > 65535);
    assert_true(at(p, "securityContext.runAsUser")->valuedouble <= INT32_MAX);
    assert_string_equal(text_at(p, "securityContext.seccompProfile.type"), "RuntimeDefault");
    const cJSON *c = at(p, "containers.0");
    assert_true(cJSON_IsTrue(at(c, "securityContext.readOnlyRootFilesystem")));
    assert_true(cJSON_IsFalse(at(c, "securityContext.allowPrivilegeEscalation")));
    assert_string_equal(text_at(c, "securityContext.capabilities.drop.0"), "ALL");
    assert_string_equal(text_at(c, "resources.limits.memory"), "536870912");
    assert_string_equal(text_at(c, "resources.limits.cpu"), "1000m");
    assert_string_equal(text_at(c, "imagePullPolicy"), "IfNotPresent");
    assert_string_equal(text_at(c, "command.0"), KUBE_AGENT_START);
    assert_true(has_word(at(c, "args"), "--single-uid") && has_word(at(c, "args"), "--filter"));
    const cJSON *item;
    bool found = false;
    cJSON_ArrayForEach(item, at(c, "env"))
    {
        found = found || strcmp(text_at(item, "value"), "$$(HOME) costs $$5") == 0;
    }
    assert_true(found);
    cJSON_ArrayForEach(item, at(p, "volumes"))
    {
        if (at(item, "projected") == NULL) {
            assert_string_equal(text_at(item, "emptyDir.medium"), "Memory");
            assert_true(strlen(text_at(item, "emptyDir.sizeLimit")) > 0);
        }
    }
    cJSON_Delete(pod);

    spec.network = true;
    spec.pull = false;
    spec.runtime = NULL;
    pod = build(&spec);
    assert_null(at(pod, "spec.dnsPolicy"));
    assert_null(at(pod, "spec.runtimeClassName"));
    assert_string_equal(text_at(pod, "spec.containers.0.imagePullPolicy"), "Never");
    assert_string_equal(json_get_str(at(pod, "metadata.labels"), KUBE_LABEL_NETWORK), "open");
    cJSON_Delete(pod);
}

static void the_agent_comes_in_parts(void **state)
{
    size_t len = 2 * KUBE_PART_BYTES + 5;
    struct kube_agent *agent = small_agent(len);
    struct kube_agent *other = small_agent(len + 1);
    size_t sum = 0;
    (void)state;
    assert_int_equal(kube_agent_count(agent), 4);
    for (size_t i = 0; i < kube_agent_count(agent); i++) {
        CLEANUP_FREE char *name = kube_agent_name(agent, i);
        CLEANUP_FREE char *others = kube_agent_name(other, i);
        CLEANUP_FREE char *text = kube_agent_body(agent, i, NULL);
        CLEANUP_BUF struct buf bytes;
        buf_init(&bytes, 1u << 20);
        assert_true(kube_is_label(name));
        assert_string_not_equal(name, others);
        cJSON *body = parse(text);
        assert_true(cJSON_IsTrue(at(body, "immutable")));
        const cJSON *data = at(body, "binaryData")->child;
        assert_int_equal(base64_decode(&bytes, view_of(data->valuestring), NULL), 0);
        assert_true(bytes.len <= 1u << 20);
        sum += i > 0 ? bytes.len : 0;
        cJSON_Delete(body);
    }
    assert_int_equal(sum, len);
    kube_agent_free(agent);
    kube_agent_free(other);
}

#define POD(status) "{\"kind\":\"Pod\",\"metadata\":{\"uid\":\"u\"},\"status\":" status "}"
#define CONTAINER(state)                                                                           \
    POD("{\"phase\":\"Pending\",\"containerStatuses\":[{\"name\":\"sandbox\",\"state\":" state     \
        "}]}")

static void states_mean_what_the_cluster_says(void **state)
{
    static const struct {
        const char *pod;
        enum kube_state_kind kind;
        int code;
        const char *words; /* of the error */
    } rows[] = {
        {POD("{}"), KUBE_STATE_WAITING, 0, ""},
        {POD("{\"phase\":\"Pending\"}"), KUBE_STATE_WAITING, 0, ""},
        {POD("{\"phase\":\"Unknown\"}"), KUBE_STATE_WAITING, 0, ""},
        {POD("{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"reason\":"
             "\"Unschedulable\",\"message\":\"0/1 nodes\"}]}"),
         KUBE_STATE_HOMELESS, 0, ""},
        {CONTAINER("{\"waiting\":{\"reason\":\"ContainerCreating\"}}"), KUBE_STATE_WAITING, 0, ""},
        {CONTAINER("{\"waiting\":{\"reason\":\"ErrImagePull\",\"message\":\"not\\nfound\"}}"),
         KUBE_STATE_HOPELESS, ERR_IMAGE, "ErrImagePull: not found"},
        {CONTAINER("{\"waiting\":{\"reason\":\"ErrImageNeverPull\"}}"), KUBE_STATE_HOPELESS,
         ERR_IMAGE, "ErrImageNeverPull"},
        {CONTAINER("{\"waiting\":{\"reason\":\"CreateContainerConfigError\",\"message\":\"no "
                   "map\"}}"),
         KUBE_STATE_HOPELESS, ERR_ENGINE, "no map"},
        {CONTAINER("{\"running\":{}}"), KUBE_STATE_RUNNING, 0, ""},
        {CONTAINER("{\"terminated\":{\"reason\":\"OOMKilled\",\"exitCode\":137}}"),
         KUBE_STATE_ENDED, ERR_GONE, "OOMKilled, exit code 137"},
        {POD("{\"phase\":\"Failed\",\"reason\":\"Evicted\",\"message\":\"low on memory\"}"),
         KUBE_STATE_ENDED, ERR_GONE, "Evicted: low on memory"},
        {POD("{\"phase\":\"Succeeded\"}"), KUBE_STATE_ENDED, ERR_GONE, "has ended"},
        {"{\"metadata\":{\"deletionTimestamp\":\"x\"},\"status\":{\"phase\":\"Running\"}}",
         KUBE_STATE_ENDED, ERR_GONE, "deleting"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kube_state s;
        cJSON *pod = parse(rows[i].pod);
        assert_int_equal(kube_state_read(pod, &s, NULL), 0);
        if (s.kind != rows[i].kind || s.err.code != rows[i].code ||
            strstr(s.err.text, rows[i].words) == NULL) {
            fail_msg("row %zu: %d %s", i, (int)s.kind, s.err.text);
        }
        cJSON_Delete(pod);
    }
    struct kube_state s;
    cJSON *list = parse("{\"kind\":\"PodList\",\"metadata\":{},\"items\":[]}");
    assert_int_equal(kube_state_read(list, &s, NULL), -ERR_PROTOCOL);
    assert_int_equal(kube_state_read(NULL, &s, NULL), -ERR_PROTOCOL);
    cJSON_Delete(list);
}

static void only_pods_of_dead_servers_that_do_not_run_are_left(void **state)
{
    struct backend_spec spec = {.id = "abc", .dir = "/no/such/directory", .image = "i"};
    (void)state;
    char host[OWNER_HOST_SIZE];
    owner_host(host);
    cJSON *pod = build(&spec);
    assert_int_equal(kube_end_is_left(pod), host[0] != '\0'); /* its directory is gone */
    cJSON *status = parse("{\"containerStatuses\":[{\"name\":\"sandbox\",\"state\":{\"running\":"
                          "{}}}]}");
    cJSON_AddItemToObject(pod, "status", status);
    assert_false(kube_end_is_left(pod)); /* its agent ends it */
    cJSON_Delete(pod);
    spec.dir = "/";
    pod = build(&spec);
    assert_false(kube_end_is_left(pod)); /* its server lives */
    cJSON_Delete(pod);
}

static void names_and_numbers_have_their_form(void **state)
{
    unsigned minor = 0;
    (void)state;
    CLEANUP_FREE char *good = kube_pod_name("a1");
    assert_string_equal(good, "cloister-a1");
    assert_null(kube_pod_name("a-"));
    assert_null(kube_pod_name("A"));
    assert_null(kube_pod_name("0123456789012345678901234567890123456789012345678901234567890"));
    assert_true(kube_mode_unpack(kube_mode_pack(34), &minor) && minor == 34);
    assert_false(kube_mode_unpack(0, &minor));
    assert_false(kube_mode_unpack(34, &minor));
    assert_int_equal(kube_probe_minor("20"), 20);
    assert_int_equal(kube_probe_minor("34+"), 34);
    assert_int_equal(kube_probe_minor("99999999"), 9999);
    assert_int_equal(kube_probe_minor(NULL), 0);
    CLEANUP_FREE char *bad = kube_stream_outcome(view_of("\x01 no json"));
    assert_non_null(bad);
    CLEANUP_FREE char *said =
        kube_stream_outcome(view_of("{\"status\":\"Failure\",\"message\":\"no\\u0007shell\"}"));
    assert_string_equal(said, "no shell");
}

/* ---- several servers ---- */

static void a_pod_belongs_to_the_server_in_its_label(void **state)
{
    cJSON *pod = parse("{\"metadata\": {\"labels\": {\"cloister.front\": \"aaaa\"}}}");
    cJSON *plain = parse("{\"metadata\": {\"labels\": {}}}");
    (void)state;
    assert_false(kube_front_is_others(pod, "aaaa"));
    assert_true(kube_front_is_others(pod, "bbbb"));
    assert_false(kube_front_is_others(pod, NULL));
    assert_false(kube_front_is_others(plain, "bbbb"));
    cJSON_Delete(pod);
    cJSON_Delete(plain);
}

static void a_record_is_kept_as_text_and_comes_back(void **state)
{
    CLEANUP_FREE char *change = NULL;
    CLEANUP_BUF struct buf back;
    (void)state;
    buf_init(&back, 100);
    assert_int_equal(kube_front_keep(view_bytes("\0r\xff", 3), NULL, NULL, &change, NULL), 0);
    cJSON *pod = parse(change);
    assert_true(kube_front_record(pod, &back));
    assert_int_equal(back.len, 3);
    assert_memory_equal(back.data, "\0r\xff", 3);
    cJSON_Delete(pod);
    cJSON *none = parse("{\"metadata\": {\"annotations\": {\"cloister.record\": \"?\"}}}");
    buf_reset(&back, 0);
    assert_false(kube_front_record(none, &back));
    cJSON_Delete(none);
}

static void a_pod_is_offered_and_taken_back_as_it_was_seen(void **state)
{
    CLEANUP_FREE char *offer = NULL;
    CLEANUP_FREE char *back = NULL;
    (void)state;
    assert_int_equal(kube_front_keep(view_of(""), "1-2", "16", &offer, NULL), 0);
    cJSON *change = parse(offer);
    assert_true(kube_front_is_spare(change));
    const cJSON *labels = at(change, "metadata.labels");
    assert_string_equal(json_get_str(labels, KUBE_LABEL_SPARE), "1-2");
    assert_string_equal(text_at(change, "metadata.resourceVersion"), "16");
    cJSON_Delete(change);
    assert_int_equal(kube_front_keep(view_of("record"), NULL, "17", &back, NULL), 0);
    change = parse(back);
    assert_string_equal(text_at(change, "metadata.resourceVersion"), "17");
    labels = at(change, "metadata.labels");
    assert_true(cJSON_IsNull(json_get(labels, KUBE_LABEL_SPARE)));
    assert_false(kube_front_is_spare(change));
    cJSON_Delete(change);
}

/* Of `count` bytes of agent; to be freed. */
static char *like(const struct backend_spec *spec, size_t count)
{
    char *text = NULL;
    struct kube_agent *agent = small_agent(count);
    assert_int_equal(kube_pod_like(spec, agent, &text, NULL), 0);
    kube_agent_free(agent);
    return text;
}

static void a_pod_is_like_another_whatever_its_name(void **state)
{
    const struct backend_spec spec = {.id = "abc", .dir = "/run/x/abc", .image = "python:3"};
    struct backend_spec other = spec;
    (void)state;
    CLEANUP_FREE char *first = like(&spec, 10);
    assert_true(kube_is_label(first));
    other.id = "xyz";
    other.dir = "/run/y/xyz";
    CLEANUP_FREE char *same = like(&other, 10);
    assert_string_equal(first, same);
    CLEANUP_FREE char *build = like(&spec, 11);
    assert_string_not_equal(first, build);
    other.limits.pids = 7;
    CLEANUP_FREE char *limits = like(&other, 10);
    assert_string_not_equal(first, limits);
    other = spec;
    other.image = "python:4";
    CLEANUP_FREE char *image = like(&other, 10);
    assert_string_not_equal(first, image);
    other = spec;
    other.told = 1;
    CLEANUP_FREE char *told = like(&other, 10);
    assert_string_not_equal(first, told);
}

static void a_pod_is_claimed_as_it_was_seen(void **state)
{
    uint64_t first = 0, second = 0;
    cJSON *pod = parse("{\"metadata\": {\"resourceVersion\": \"17\", \"labels\": "
                       "{\"cloister.sandbox\": \"abc\", \"cloister.front\": \"aaaa\"}}}");
    (void)state;
    CLEANUP_FREE char *text = kube_fronts_claim(pod, "bbbb", "/run/x/sandboxes", &first);
    cJSON *change = parse(text);
    assert_string_equal(text_at(change, "metadata.resourceVersion"), "17");
    const cJSON *labels = at(change, "metadata.labels");
    const cJSON *notes = at(change, "metadata.annotations");
    assert_string_equal(json_get_str(labels, KUBE_LABEL_FRONT), "bbbb");
    assert_true(cJSON_IsNull(json_get(labels, KUBE_LABEL_SPARE))); /* nobody else claims it */
    assert_string_equal(json_get_str(notes, KUBE_ANNOTATION_TURN), "1");
    assert_string_equal(json_get_str(notes, OWNER_LABEL "dir"), "/run/x/sandboxes/abc");
    CLEANUP_FREE char *again = kube_fronts_claim(change, "cccc", "/run", &second);
    assert_null(again); /* it has no sandbox's label */
    cJSON_Delete(pod);
    pod = parse("{\"metadata\": {\"resourceVersion\": \"18\", \"labels\": {\"cloister.sandbox\": "
                "\"abc\"}, \"annotations\": {\"cloister.turn\": \"1\"}}}");
    CLEANUP_FREE char *later = kube_fronts_claim(pod, "cccc", "/run", &second);
    assert_non_null(later);
    assert_true(second > first); /* so an agent refuses workers of the server before */
    cJSON_Delete(change);
    cJSON_Delete(pod);
}

static void a_lease_is_given_up_as_it_was_seen(void **state)
{
    (void)state;
    CLEANUP_FREE char *renew = kube_lease_renew("aaaa", 600000, true);
    cJSON *lease = parse(renew);
    assert_string_equal(text_at(lease, "metadata.name"), "cloister-aaaa");
    assert_int_equal(kube_lease_time_ms(lease), 600000);
    assert_false(kube_lease_is_given_up(lease));
    cJSON_Delete(lease);
    CLEANUP_FREE char *give_up = kube_lease_give_up("17");
    lease = parse(give_up);
    assert_string_equal(text_at(lease, "metadata.resourceVersion"), "17");
    assert_true(cJSON_IsNull(at(lease, "spec.holderIdentity")));
    assert_true(kube_lease_is_given_up(lease));
    cJSON_Delete(lease);
    lease = parse("{\"spec\": {\"holderIdentity\": \"\"}}"); /* as other clients write it */
    assert_true(kube_lease_is_given_up(lease));
    cJSON_Delete(lease);
    lease = parse("{\"metadata\": {}}"); /* what says nothing says nothing of an end */
    assert_false(kube_lease_is_given_up(lease));
    cJSON_Delete(lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_asks_for_nothing_and_is_given_limits),
        cmocka_unit_test(the_agent_comes_in_parts),
        cmocka_unit_test(states_mean_what_the_cluster_says),
        cmocka_unit_test(a_lease_is_given_up_as_it_was_seen),
        cmocka_unit_test(only_pods_of_dead_servers_that_do_not_run_are_left),
        cmocka_unit_test(names_and_numbers_have_their_form),
        cmocka_unit_test(a_pod_belongs_to_the_server_in_its_label),
        cmocka_unit_test(a_record_is_kept_as_text_and_comes_back),
        cmocka_unit_test(a_pod_is_claimed_as_it_was_seen),
        cmocka_unit_test(a_pod_is_offered_and_taken_back_as_it_was_seen),
        cmocka_unit_test(a_pod_is_like_another_whatever_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
