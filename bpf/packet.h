/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* Finds an IPv4 packet with protocol 4 (IPIP, RFC 2003) in what a tc or XDP hook sees, and copies its headers out. */
#ifndef CNI_IPIP_PACKET_H
#define CNI_IPIP_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define IP_OFFSET_MASK 0x1fff /* RFC 791, host order: where in the packet the fragment lies, in units of 8 bytes */

/* IEEE 802.1Q: follows an ethertype of 0x8100 or 0x88a8. */
struct vlan_tag {
	__be16 control;
	__be16 ethertype; /* of what comes next */
};

struct ipip_packet {
	struct iphdr outer; /* zero when the packet ends inside it, which makes its version wrong */
	struct iphdr inner; /* what follows the outer header; zero when the packet ends before or inside it */
	__u32 available; /* bytes from the outer header to the end of the frame, padding included */
	__u32 total_length; /* bytes that the outer header claims, itself included */
};

static __always_inline bool is_vlan(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_8021Q) || ethertype == bpf_htons(ETH_P_8021AD);
}

static __always_inline __u32 header_length(const struct iphdr *header)
{
	return header->ihl * 4; /* at most 60, also when the header is nonsense */
}

/* The second and later parts of a fragmented packet: the inner header is not in them. */
static __always_inline bool is_later_fragment(const struct iphdr *header)
{
	return header->frag_off & bpf_htons(IP_OFFSET_MASK);
}

/* Copies bytes that begin `offset` behind the start of the network header; clears the copy when they are not there. */
static __always_inline int load_network(struct __sk_buff *skb, __u32 offset, void *to, __u32 length)
{
	return bpf_skb_load_bytes_relative(skb, offset, to, length, BPF_HDR_START_NET);
}

/*
 * Fills in all but the protocol, which is known to be IPIP. `skipped` bytes of the frame lie before the outer header;
 * `tags` bytes of VLAN tags lie between what the kernel calls the network header and the outer one.
 */
static __always_inline void load_headers(struct __sk_buff *skb, __u32 tags, __u32 skipped, struct ipip_packet *packet)
{
	packet->available = skb->len - skipped;
	load_network(skb, tags, &packet->outer, sizeof(packet->outer));
	load_network(skb, tags + header_length(&packet->outer), &packet->inner, sizeof(packet->inner));

	packet->total_length = bpf_ntohs(packet->outer.tot_len);
	/* GRO above 64 KiB (BIG TCP, 6.3 and later) leaves 0 in the field, as the length does not fit. */
	if (packet->total_length == 0 && skb->gso_size)
		packet->total_length = packet->available;
}

/*
 * tc on a link with Ethernet header. The first VLAN tag is always in the skb's metadata, also when it came in the
 * frame, and skb->protocol is the ethertype behind it; further tags are still in the data.
 */
static __always_inline bool load_ipip_from_ethernet_skb(struct __sk_buff *skb, struct ipip_packet *packet)
{
	__u32 network = sizeof(struct ethhdr);
	__be16 ethertype = skb->protocol;
	struct vlan_tag tag;
	__u8 protocol;

#pragma unroll
	for (int tags = 0; tags < 2 && is_vlan(ethertype); tags++) {
		if (bpf_skb_load_bytes(skb, network, &tag, sizeof(tag)) < 0)
			return false;
		ethertype = tag.ethertype;
		network += sizeof(tag);
	}
	if (ethertype != bpf_htons(ETH_P_IP))
		return false;

	const __u8 *linear = (void *)(long)skb->data + network + offsetof(struct iphdr, protocol);

	if ((void *)(linear + 1) <= (void *)(long)skb->data_end)
		protocol = *linear;
	/* The byte may lie in a page fragment of the skb, where only the helper reaches. */
	else if (bpf_skb_load_bytes(skb, network + offsetof(struct iphdr, protocol), &protocol, sizeof(protocol)) < 0)
		return false;
	if (protocol != IPPROTO_IPIP)
		return false;
	load_headers(skb, network - sizeof(struct ethhdr), network, packet);
	return true;
}

/*
 * tc on every other link: with no link header (tun, wireguard, gre) or with one of its own (InfiniBand), so that only
 * the kernel knows where the network header starts. How long a link header was it does not tell.
 */
static __always_inline bool load_ipip_from_raw_skb(struct __sk_buff *skb, struct ipip_packet *packet)
{
	__u8 protocol;

	if (skb->protocol != bpf_htons(ETH_P_IP) ||
	    load_network(skb, offsetof(struct iphdr, protocol), &protocol, sizeof(protocol)) < 0 || protocol != IPPROTO_IPIP)
		return false;
	load_headers(skb, 0, 0, packet);
	return true;
}

/*
 * XDP sees tags that came in the frame as data and those that the hardware took off not at all. The whole packet is
 * in one piece: the kernel does not attach a program without "frags" to a link where it might not be.
 */
static __always_inline bool load_ipip_from_xdp(struct xdp_md *xdp, struct ipip_packet *packet)
{
	void *end = (void *)(long)xdp->data_end;
	struct ethhdr *ethernet = (void *)(long)xdp->data;
	void *network = ethernet + 1;
	__be16 ethertype;

	if (network > end)
		return false;
	ethertype = ethernet->h_proto;

#pragma unroll
	for (int tags = 0; tags < 2 && is_vlan(ethertype); tags++) {
		struct vlan_tag *tag = network;

		network = tag + 1;
		if (network > end)
			return false;
		ethertype = tag->ethertype;
	}
	if (ethertype != bpf_htons(ETH_P_IP))
		return false;

	struct iphdr *outer = network;

	if ((void *)&outer->protocol + sizeof(outer->protocol) > end || outer->protocol != IPPROTO_IPIP)
		return false;

	__builtin_memset(packet, 0, sizeof(*packet));
	packet->available = end - network;
	if ((void *)(outer + 1) > end)
		return true;
	packet->outer = *outer;
	packet->total_length = bpf_ntohs(outer->tot_len);

	struct iphdr *inner = network + header_length(outer);

	if ((void *)(inner + 1) <= end)
		packet->inner = *inner;
	return true;
}

#endif
