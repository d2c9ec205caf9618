/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* What becomes of an IPv4 packet with protocol 4 that comes in on a link of this node, whoever looks at it there. */
#ifndef CNI_IPIP_HOST_NET_DECISION_H
#define CNI_IPIP_HOST_NET_DECISION_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "host_net_guard_maps.h"
#include "packet.h"
#include "shared.h"

#define AF_INET 2 /* sys/socket.h is not for BPF */

static __always_inline bool is_sound(const struct ipip_packet *packet)
{
	const struct iphdr *outer = &packet->outer;
	__u32 header = header_length(outer);

	return outer->version == 4 && header >= sizeof(*outer) && packet->total_length >= header &&
	       packet->total_length <= packet->available;
}

static __always_inline bool is_member(__be32 address)
{
	struct cidr host = { .prefix_length = 32, .address = address };

	return bpf_map_lookup_elem(&members_exact, &address) || bpf_map_lookup_elem(&members_cidr, &host);
}

/* A node's packet passes unless tunl0 would unwrap it twice: the second outer source would be checked by nobody. */
static __always_inline enum verdict verdict_on_member(const struct ipip_packet *packet)
{
	/* The first fragment is judged in full, and the stack refuses overlapping ones: no later one can change it. */
	if (is_later_fragment(&packet->outer))
		return VERDICT_MEMBER;
	/* Bytes behind the claimed length are padding, not an inner header. */
	if (packet->total_length < header_length(&packet->outer) + sizeof(packet->inner))
		return VERDICT_MALFORMED;
	if (packet->inner.version != 4)
		return VERDICT_MALFORMED;
	if (packet->inner.protocol == IPPROTO_IPIP)
		return VERDICT_NESTED;
	return VERDICT_MEMBER;
}

static __always_inline bool is_other_tunnel(const struct iphdr *outer)
{
	struct tunnel_pair pair = { .local = outer->daddr, .remote = outer->saddr };

	return bpf_map_lookup_elem(&other_tunnels, &pair);
}

/*
 * Would tunl0 get it? More addresses than any list holds are delivered here (AnyIP routes, thousands of virtual
 * services), and a list goes stale while user space is dead, so the kernel's own routing is asked as well. It does not
 * know multicast and limited broadcast: it answers with the default route.
 */
static __always_inline bool is_ours(void *context, __u32 ifindex, const struct iphdr *outer)
{
	__u32 destination = bpf_ntohl(outer->daddr);

	/* 127/8 is delivered under route_localnet; 224/4 when joined; 255.255.255.255 always. */
	if (is_loopback(outer->daddr) || destination >> 28 == 14 || destination == 0xffffffff)
		return true;
	if (bpf_map_lookup_elem(&locals, &outer->daddr))
		return true;

	struct bpf_fib_lookup route = {
		.family = AF_INET,
		.l4_protocol = IPPROTO_IPIP,
		.tos = outer->tos,
		.ifindex = ifindex,
		.ipv4_src = outer->saddr,
		.ipv4_dst = outer->daddr,
	};

	switch (bpf_fib_lookup(context, &route, sizeof(route), 0)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
	case BPF_FIB_LKUP_RET_NO_NEIGH:
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
		return false;
	/*
	 * Local, unroutable, or an answer that this program does not know. Also where the link does not forward, when the
	 * kernel looks nothing up: it takes no packet on from there, so that none is lost by calling it ours.
	 */
	default:
		return true;
	}
}

/* Of a sound packet from whom nobody vouches for. */
static __always_inline enum verdict verdict_on_stranger(void *context, __u32 ifindex, const struct iphdr *outer)
{
	if (is_ours(context, ifindex, outer))
		return VERDICT_NOT_MEMBER;
	if (is_member(outer->daddr))
		return VERDICT_FORGED_TRANSIT;
	return VERDICT_TRANSIT;
}

static __always_inline enum verdict decide(void *context, __u32 ifindex, const struct ipip_packet *packet)
{
	const struct iphdr *outer = &packet->outer;

	if (!is_sound(packet))
		return VERDICT_MALFORMED;
	if (is_member(outer->saddr))
		return verdict_on_member(packet);
	if (is_other_tunnel(outer))
		return VERDICT_OTHER_TUNNEL;
	return verdict_on_stranger(context, ifindex, outer);
}

static __always_inline bool is_observing(void)
{
	__u32 first = 0;
	const struct guard_config *config = bpf_map_lookup_elem(&guard_config, &first);

	return config && config->mode == GUARD_MODE_OBSERVE;
}

/* Not inlined: so enum verdict gets into the object's BTF, where the layout test compares it with user space's. */
static __noinline void count(enum verdict verdict, __u32 bytes)
{
	__u32 index = verdict;
	struct verdict_counter *counter = bpf_map_lookup_elem(&verdicts, &index);

	if (!counter)
		return;
	counter->packets++;
	counter->bytes += bytes;
}

/* The one exit of every packet that was judged. */
static __always_inline int settle(enum verdict verdict, __u32 bytes, int pass, int drop)
{
	if (verdict < VERDICT_FIRST_DROP) {
		count(verdict, bytes);
		return pass;
	}
	if (is_observing()) {
		count(verdict - VERDICT_FIRST_DROP + VERDICT_FIRST_OBSERVED, bytes);
		return pass;
	}
	count(verdict, bytes);
	return drop;
}

#endif
