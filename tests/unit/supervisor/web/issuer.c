#include "tests/unit/supervisor/web/issuer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void issuer_start(struct issuer *issuer)
{
    FILE *file = script_server_start(&issuer->server, AUTH_ISSUER);
    assert_int_equal(fscanf(file, "ready %u %u", &issuer->port, &issuer->tls_port), 2);
    fclose(file);
}

void issuer_stop(struct issuer *issuer)
{
    script_server_stop(&issuer->server);
}

void issuer_write(const char *path, const char *text, mode_t mode)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}
