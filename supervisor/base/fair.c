/*
 * Nobody knows how many others will come, nor when, and what somebody holds is not taken away from
 * him. So one may take half of what the others have left, the next one half of the rest, and so on:
 * whoever comes finds something, and a principal that is alone has half of everything. That needs
 * no memory of who has been here.
 */
#include "supervisor/base/fair.h"

bool fair_may_take(uint64_t total, uint64_t used, uint64_t mine, uint64_t more)
{
    return used <= total && more <= total - used && mine + more <= total - used - more;
}
