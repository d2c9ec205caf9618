// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/*
 * The host-net guard: decides for every IPv4 packet with protocol 4 that comes in on a link whether its outer source
 * may send one here. It runs at tc ingress on every link that can hand packets to this stack, and at XDP on top of
 * that where asked for. Everything else passes after as few instructions as possible and is not counted: a counter
 * would cost every packet of the host a map lookup, to count what the guard has no opinion about.
 *
 * Passing is TC_ACT_UNSPEC (the same number as TCX_NEXT) or XDP_PASS, so that other programs on the link still run.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "host_net_decision.h"
#include "packet.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tc")
int guard_tc_ethernet(struct __sk_buff *skb)
{
	struct ipip_packet packet;

	if (!load_ipip_from_ethernet_skb(skb, &packet))
		return TC_ACT_UNSPEC;
	return settle(decide(skb, skb->ifindex, &packet), skb->len, TC_ACT_UNSPEC, TC_ACT_SHOT);
}

SEC("tc")
int guard_tc_raw(struct __sk_buff *skb)
{
	struct ipip_packet packet;

	if (!load_ipip_from_raw_skb(skb, &packet))
		return TC_ACT_UNSPEC;
	return settle(decide(skb, skb->ifindex, &packet), skb->len, TC_ACT_UNSPEC, TC_ACT_SHOT);
}

SEC("xdp")
int guard_xdp(struct xdp_md *xdp)
{
	struct ipip_packet packet;
	__u32 length = xdp->data_end - xdp->data;

	if (!load_ipip_from_xdp(xdp, &packet))
		return XDP_PASS;
	return settle(decide(xdp, xdp->ingress_ifindex, &packet), length, XDP_PASS, XDP_DROP);
}
