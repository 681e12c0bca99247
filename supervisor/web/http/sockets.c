/*
 * Opens the listening sockets.
 *
 * A name may resolve to several addresses ("localhost" often is 127.0.0.1 and ::1), and a client
 * tries them in an order of its own, so we listen on each of them, on one port. An address that
 * this machine does not have (IPv6 switched off) is skipped if another one works. A port in use is
 * an error: otherwise we would answer some clients and another server the rest.
 *
 * libmicrohttpd does not open the sockets, because it would spin when descriptors run out, and
 * could neither listen on several addresses nor count connections by network.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "supervisor/web/http/internal.h"

enum { BACKLOG = 512 };

static int open_one(const struct addrinfo *at, uint16_t port, const char *shown, struct err *err)
{
    CLEANUP_FD int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(err, ERR_CONFIG, errno, "HTTP: %s: socket", shown);
    }
    /* with this option, dying connections of the previous server do not block the port; another
     * listening server still does */
    const int on = 1, off = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "HTTP: %s: SO_REUSEADDR", shown);
    }
    struct sockaddr_storage address;
    memcpy(&address, at->ai_addr, at->ai_addrlen);
    if (at->ai_family == AF_INET6) {
        /* "::" includes IPv4; where the kernel does not allow that, it is IPv6 only */
        bool any = IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)(void *)&address)->sin6_addr);
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, any ? &off : &on, sizeof(on));
        ((struct sockaddr_in6 *)(void *)&address)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)(void *)&address)->sin_port = htons(port);
    }
    if (bind(fd, (struct sockaddr *)&address, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int sys = errno;
        if (sys == EADDRINUSE) {
            return err_sys(err, ERR_CONFIG, sys,
                           "HTTP: port %u of %s is taken; stop what listens there or choose "
                           "another one with --http",
                           port, shown);
        }
        if (sys == EADDRNOTAVAIL) {
            return err_sys(err, ERR_CONFIG, sys, "HTTP: %s is no address of this machine", shown);
        }
        if (sys == EACCES) {
            return err_sys(err, ERR_CONFIG, sys,
                           "HTTP: port %u is not ours to take; choose one above 1023", port);
        }
        return err_sys(err, ERR_CONFIG, sys, "HTTP: listen on %s, port %u", shown, port);
    }
    return steal_fd(&fd);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
        return 0;
    }
    return ntohs(address.ss_family == AF_INET6
                     ? ((struct sockaddr_in6 *)(void *)&address)->sin6_port
                     : ((struct sockaddr_in *)(void *)&address)->sin_port);
}

static int open_sockets(const struct addrinfo *list, uint16_t *port, const char *shown,
                        int fds[WEB_SOCKETS_MAX], struct err *err)
{
    int count = 0;
    struct err why = ERR_INIT;
    for (const struct addrinfo *at = list; at != NULL && count < WEB_SOCKETS_MAX;
         at = at->ai_next) {
        if (at->ai_family != AF_INET && at->ai_family != AF_INET6) {
            continue;
        }
        int fd = open_one(at, *port, shown, &why);
        if (fd < 0 && why.sys != EADDRNOTAVAIL && why.sys != EAFNOSUPPORT) {
            while (count > 0) {
                close(fds[--count]);
            }
            break;
        }
        if (fd >= 0) {
            fds[count++] = fd;
            /* the kernel chose the port for the first address; the others use the same */
            *port = port_of(fd);
        }
    }
    if (count == 0) {
        *err = why;
        return -why.code;
    }
    return count;
}

int web_sockets_open(const char *address, uint16_t port, bool tls, int fds[WEB_SOCKETS_MAX],
                     char **ret_url, struct err *err)
{
    CLEANUP_FREE char *name = alloc_strdup(address);
    size_t len = strlen(name);
    if (len > 2 && name[0] == '[' && name[len - 1] == ']') { /* brackets as in a URL */
        memmove(name, name + 1, len - 2);
        name[len - 2] = '\0';
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(name, NULL, &hints, &list);
    if (rc != 0) {
        return err_set(err, ERR_CONFIG, "HTTP: address %s: %s", address,
                       rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    }
    int count = open_sockets(list, &port, name, fds, err);
    freeaddrinfo(list);
    if (count < 0) {
        return count;
    }
    bool brackets = strchr(name, ':') != NULL;
    *ret_url = alloc_printf("%s://%s%s%s:%u", tls ? "https" : "http", brackets ? "[" : "", name,
                            brackets ? "]" : "", port);
    return count;
}

/* Who has connected to a unix socket of ours. */
static bool find_user(int fd, uid_t *ret)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    bool found = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0;
    *ret = found ? peer.uid : 0;
    return found;
}

bool web_socket_is_of_user(int fd)
{
    uid_t user;
    return find_user(fd, &user) && (user == geteuid() || user == 0);
}

static void peer_ip4(struct web_peer *peer, const void *ip)
{
    memcpy(peer->key, ip, 4);
    peer->key_len = 4;
    peer->loopback = peer->key[0] == 127;
    inet_ntop(AF_INET, ip, peer->text, sizeof(peer->text));
}

void web_peer_set(struct web_peer *peer, int fd, const struct sockaddr *address)
{
    memset(peer, 0, sizeof(*peer));
    if (address->sa_family == AF_INET) {
        peer_ip4(peer, &((const struct sockaddr_in *)(const void *)address)->sin_addr);
        return;
    }
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *ip =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(ip)) {
            peer_ip4(peer, &ip->s6_addr[12]);
            return;
        }
        memcpy(peer->key, ip, sizeof(peer->key));
        peer->key_len = sizeof(peer->key);
        peer->loopback = IN6_IS_ADDR_LOOPBACK(ip);
        inet_ntop(AF_INET6, ip, peer->text, sizeof(peer->text));
        return;
    }
    uid_t user;
    peer->loopback = true;
    if (find_user(fd, &user)) {
        snprintf(peer->text, sizeof(peer->text), "user %u", (unsigned)user);
    } else {
        err_ignore(str_copy(peer->text, sizeof(peer->text), "local", NULL)); /* it fits */
    }
}
