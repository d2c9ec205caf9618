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

/* Bytes of a frame in which a link header (with GRE over IPv4 at most 76) and IPv4 headers of 60 and 20 surely end. */
#define HEADERS_LIMIT 256

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

static __always_inline bool is_loopback(__be32 address)
{
	return (address & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
}

/*
 * Copies bytes that begin `offset` behind the start of the frame, also out of the page fragments of the skb. False, and
 * the copy cleared, when the frame ends before or inside them.
 */
static __always_inline bool load(struct __sk_buff *skb, __u32 offset, void *to, __u32 length)
{
	return bpf_skb_load_bytes(skb, offset, to, length) == 0;
}

/* The same from the start of the network header, but out of the linear part of the skb alone: that is all it reaches. */
static __always_inline bool load_linear_network(struct __sk_buff *skb, __u32 offset, void *to, __u32 length)
{
	return bpf_skb_load_bytes_relative(skb, offset, to, length, BPF_HDR_START_NET) == 0;
}

/*
 * Moves headers that lie in page fragments into the linear part, which takes an allocation and so can fail. Packet
 * pointers are not valid any more.
 */
static __always_inline void make_headers_linear(struct __sk_buff *skb)
{
	__u32 linear = skb->data_end - skb->data;
	__u32 wanted = skb->len < HEADERS_LIMIT ? skb->len : HEADERS_LIMIT;

	if (linear < wanted)
		bpf_skb_pull_data(skb, wanted);
}

/* Fills in the lengths, once the outer header is there. */
static __always_inline void measure(const struct __sk_buff *skb, __u32 available, struct ipip_packet *packet)
{
	packet->available = available;
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
		if (!load(skb, network, &tag, sizeof(tag)))
			return false;
		ethertype = tag.ethertype;
		network += sizeof(tag);
	}
	if (ethertype != bpf_htons(ETH_P_IP))
		return false;

	const __u8 *linear = (void *)(long)skb->data + network + offsetof(struct iphdr, protocol);

	if ((void *)(linear + 1) <= (void *)(long)skb->data_end)
		protocol = *linear;
	else if (!load(skb, network + offsetof(struct iphdr, protocol), &protocol, sizeof(protocol)))
		return false;
	if (protocol != IPPROTO_IPIP)
		return false;
	load(skb, network, &packet->outer, sizeof(packet->outer));
	load(skb, network + header_length(&packet->outer), &packet->inner, sizeof(packet->inner));
	measure(skb, skb->len - network, packet);
	return true;
}

static __always_inline bool is_known_not_ipip(struct __sk_buff *skb)
{
	__u8 protocol;

	return load_linear_network(skb, offsetof(struct iphdr, protocol), &protocol, sizeof(protocol)) &&
	       protocol != IPPROTO_IPIP;
}

/*
 * tc on every other link: with no link header (tun, wireguard), with one of its own (InfiniBand), or with that of the
 * packet that it came in (gre on 5.10). Only the kernel knows where the network header starts, and does not tell how
 * long what lies before it is. A packet whose protocol cannot be read, for want of memory too, is taken for IPIP that
 * ends early.
 */
static __always_inline bool load_ipip_from_raw_skb(struct __sk_buff *skb, struct ipip_packet *packet)
{
	if (skb->protocol != bpf_htons(ETH_P_IP) || is_known_not_ipip(skb))
		return false;
	make_headers_linear(skb);
	if (is_known_not_ipip(skb))
		return false;
	load_linear_network(skb, 0, &packet->outer, sizeof(packet->outer));
	load_linear_network(skb, header_length(&packet->outer), &packet->inner, sizeof(packet->inner));
	measure(skb, skb->len, packet);
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
