/*
 * Where a door lets out to, what a server is told, and what a program hears if it is not let out.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/door/door_lab.h"

static const char *const own_number[] = {"127.0.0.1:PORT", "own", NULL};
static const char *const own_local[] = {"localhost:PORT", "own", NULL};
static const char *const own_name[] = {"index.example:PORT", "own", NULL};
static const char *const ours[] = {"pypi.org:PORT", "public", NULL};

static void is_refused(const char *const *rules, const char *leads_to, const char *ask,
                       const char *part)
{
    struct lab *l = lab_create(rules, "", "");
    l->leads_to = leads_to;
    lab_ask(l, 1, ask);
    lab_until_closed(l, 1);
    assert_memory_equal(lab_said(l, 1), "HTTP/1.1 403 cloister: not let out: ", 36);
    if (strstr(lab_said(l, 1), part) == NULL) {
        fail_msg("\"%s\" is not in %s", part, lab_said(l, 1));
    }
    assert_int_equal(l->accepted, 0);
    lab_destroy(l);
}

static void a_tunnel_carries_both_ways(void **state)
{
    (void)state;
    struct lab *l = lab_create(own_number, "", "");
    lab_ask(l, 1, "CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n\x16\x03 first");
    lab_until_said(l, 1, "HTTP/1.1 200 ");
    lab_until_heard(l, "\x16\x03 first");
    assert_int_equal(l->heard.len, strlen("\x16\x03 first")); /* and nothing of the request */
    lab_serve(l, "answer", 6);
    lab_until_said(l, 1, "\r\n\r\nanswer");
    assert_int_equal(lab_data(l, 1, "second"), 0);
    lab_until_heard(l, "second");
    lab_hang_up(l);
    lab_until_closed(l, 1);
    assert_int_equal(l->looked_up, 1);
    lab_destroy(l);
}

static void a_plain_request_is_said_on_and_no_other_after_it(void **state)
{
    (void)state;
    struct lab *l = lab_create(own_number, "", "");
    lab_ask(
        l, 1,
        "POST http://127.0.0.1:PORT/simple/ HTTP/1.1\r\nContent-Length: 4\r\nHost: x\r\n\r\nbo");
    assert_int_equal(lab_data(l, 1, "dyGET http://elsewhere.example/ HTTP/1.1\r\n\r\n"), 0);
    lab_until_heard(l, "\r\n\r\nbody");
    assert_int_equal(lab_data(l, 1, "GET http://elsewhere.example/ HTTP/1.1\r\n\r\n"), 0);
    lab_serve(l, "HTTP/1.1 200 OK\r\n\r\nyes", 22);
    lab_until_said(l, 1, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nyes");
    lab_hang_up(l);
    lab_until_closed(l, 1);
    const char *heard = buf_cstr(&l->heard);
    assert_ptr_equal(strstr(heard, "POST /simple/ HTTP/1.1\r\nHost: 127.0.0.1:"), heard);
    assert_non_null(strstr(heard, "\r\nConnection: close\r\n"));
    assert_null(strstr(heard, "elsewhere"));
    lab_destroy(l);
}

static void what_no_rule_names_is_not_even_looked_up(void **state)
{
    static const char *const asks[] = {
        "CONNECT elsewhere.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n",
        "CONNECT index.example:22 HTTP/1.1\r\n\r\n",
        "CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n",
        "CONNECT [::1]:PORT HTTP/1.1\r\n\r\n",
        "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\n\r\n",
        "GET http://index.example/ HTTP/1.1\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        struct lab *l = lab_create(own_name, "", "");
        lab_ask(l, 1, asks[i]);
        lab_until_closed(l, 1);
        assert_non_null(strstr(lab_said(l, 1), "403 cloister: not let out: "));
        assert_non_null(strstr(lab_said(l, 1), " is none of the configured sources\r\n"));
        assert_int_equal(l->looked_up, 0);
        assert_int_equal(l->accepted, 0);
        lab_destroy(l);
    }
}

static void a_name_that_leads_where_it_should_not_is_refused(void **state)
{
    (void)state;
    is_refused(ours, "127.0.0.1", "CONNECT pypi.org:PORT HTTP/1.1\r\n\r\n",
               " is at 127.0.0.1, a loopback address");
    is_refused(ours, "10.9.8.7", "GET http://pypi.org:PORT/ HTTP/1.1\r\n\r\n",
               " is at 10.9.8.7, a private address");
    is_refused(ours, "169.254.169.254", "CONNECT pypi.org:PORT HTTP/1.1\r\n\r\n",
               "a link-local address");
    is_refused(ours, "::ffff:127.0.0.1", "CONNECT pypi.org:PORT HTTP/1.1\r\n\r\n",
               "a loopback address");
    is_refused(own_name, "127.0.0.1", "CONNECT index.example:PORT HTTP/1.1\r\n\r\n",
               "a loopback address");
    is_refused(own_name, "169.254.169.254", "CONNECT index.example:PORT HTTP/1.1\r\n\r\n",
               "a link-local address");
}

/* "localhost" may be at loopback. */
static void a_name_is_looked_up_once_and_judged_each_time(void **state)
{
    (void)state;
    struct lab *l = lab_create(own_local, "", "");
    l->leads_to = "127.0.0.1 169.254.169.254 127.0.0.1";
    lab_ask(l, 1, "CONNECT LocalHost:PORT HTTP/1.1\r\n\r\n");
    lab_until_said(l, 1, "HTTP/1.1 200 ");
    assert_int_equal(l->looked_up, 1); /* so it is connected to what that look-up has found */
    assert_int_equal(lab_data(l, 1, "here"), 0);
    lab_until_heard(l, "here");
    lab_ask(l, 2, "CONNECT localhost:PORT HTTP/1.1\r\n\r\n");
    lab_until_closed(l, 2);
    assert_non_null(strstr(lab_said(l, 2), "is at 169.254.169.254, a link-local address"));
    lab_ask(l, 3, "CONNECT localhost:PORT HTTP/1.1\r\n\r\n");
    lab_until_said(l, 3, "HTTP/1.1 200 ");
    assert_int_equal(l->looked_up, 3);
    assert_int_equal(l->channels[1].closed, 0);
    lab_destroy(l);
}

static void who_asks_for_one_name_at_the_same_time_waits_for_one_look_up(void **state)
{
    (void)state;
    struct lab *l = lab_create(own_local, "", "");
    l->leads_to = "127.0.0.1";
    lab_ask(l, 1, "CONNECT localhost:PORT HTTP/1.1\r\n\r\n");
    lab_ask(l, 2, "CONNECT localhost:PORT HTTP/1.1\r\n\r\n");
    lab_ask(l, 3, "CONNECT localhost:PORT HTTP/1.1\r\n\r\n");
    assert_int_equal(lab_close(l, 2, true), 0);
    lab_until_said(l, 1, "HTTP/1.1 200 ");
    lab_until_said(l, 3, "HTTP/1.1 200 ");
    assert_int_equal(l->looked_up, 1);
    assert_int_equal(l->channels[2].said.len, 0);
    lab_destroy(l);
}

static void what_cannot_be_reached_says_why(void **state)
{
    static const char *const rules[] = {"127.0.0.1:1", "own", "nowhere.invalid:1", "own", NULL};
    (void)state;
    struct lab *l = lab_create(rules, "", "");
    lab_ask(l, 1, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n");
    lab_until_closed(l, 1);
    assert_non_null(
        strstr(lab_said(l, 1), "504 cloister: 127.0.0.1:1 cannot be reached: connection refused"));
    l->leads_to = "nowhere";
    lab_ask(l, 2, "GET http://nowhere.invalid:1/ HTTP/1.1\r\n\r\n");
    lab_until_closed(l, 2);
    assert_non_null(strstr(lab_said(l, 2), "504 cloister: nowhere.invalid:1 cannot be reached: "));
    lab_destroy(l);
}

static void with_a_proxy_it_is_asked_and_no_name_is_looked_up(void **state)
{
    (void)state;
    struct lab *l = lab_create(own_name, "127.0.0.1:PORT", "Basic c2VjcmV0");
    lab_ask(l, 1, "CONNECT index.example:PORT HTTP/1.1\r\nProxy-Authorization: mine\r\n\r\nmore");
    lab_until_heard(l, "\r\n\r\nmore");
    assert_non_null(strstr(buf_cstr(&l->heard), "CONNECT index.example:"));
    assert_non_null(strstr(buf_cstr(&l->heard), "\r\nProxy-Authorization: Basic c2VjcmV0\r\n"));
    assert_null(strstr(buf_cstr(&l->heard), "mine"));
    assert_int_equal(l->channels[1].said.len, 0); /* the proxy's answer is the answer */
    lab_serve(l, "HTTP/1.1 407 No\r\n\r\n", 19);
    lab_until_said(l, 1, "HTTP/1.1 407 No\r\n\r\n");
    lab_ask(l, 2, "GET http://index.example:PORT/simple/ HTTP/1.1\r\n\r\n");
    lab_until_heard(l, "GET http://index.example:");
    lab_ask(l, 3, "CONNECT elsewhere.example:443 HTTP/1.1\r\n\r\n");
    lab_until_closed(l, 3);
    assert_non_null(strstr(lab_said(l, 3), "403 "));
    assert_non_null(strstr(l->last_name, "127.0.0.1:"));
    assert_null(strstr(buf_cstr(&l->heard), "elsewhere"));
    lab_destroy(l);
}

static void nonsense_is_answered(void **state)
{
    static const char *const asks[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01 not HTTP",
                                       "GET https://127.0.0.1:PORT/ HTTP/1.1\r\n\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        struct lab *l = lab_create(own_number, "", "");
        lab_ask(l, 1, asks[i]);
        lab_until_closed(l, 1);
        assert_memory_equal(lab_said(l, 1), "HTTP/1.1 400 cloister: not let out: this is no", 45);
        lab_destroy(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tunnel_carries_both_ways),
        cmocka_unit_test(a_plain_request_is_said_on_and_no_other_after_it),
        cmocka_unit_test(what_no_rule_names_is_not_even_looked_up),
        cmocka_unit_test(a_name_that_leads_where_it_should_not_is_refused),
        cmocka_unit_test(a_name_is_looked_up_once_and_judged_each_time),
        cmocka_unit_test(who_asks_for_one_name_at_the_same_time_waits_for_one_look_up),
        cmocka_unit_test(what_cannot_be_reached_says_why),
        cmocka_unit_test(with_a_proxy_it_is_asked_and_no_name_is_looked_up),
        cmocka_unit_test(nonsense_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
