// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/*
 * The workload guard: decides for every packet that a pod sends whether it may. It runs at tc ingress on the host's end
 * of each pod's veth pair, from before that is up. What it does not know is dropped: a link without entry, an ethertype
 * that the network does not carry.
 *
 * Passing is TC_ACT_UNSPEC (the same number as TCX_NEXT), so that other programs on the link still run.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "host_net_decision.h"
#include "packet.h"
#include "shared.h"
#include "workload_guard_maps.h"

#define FRAGMENT_OFFSET_MASK 0x1fff /* RFC 791, in units of 8 bytes */
#define VLAN_ID_MASK 0xfff /* IEEE 802.1Q; identifier 0 is a priority alone, and the stack takes such a frame as untagged */

#define HARDWARE_ETHERNET 1 /* ARPHRD_ETHER; linux/if_arp.h is not for BPF */

/* RFC 826 with the addresses of IPv4 on Ethernet. Packed: `sender` is not aligned. */
struct arp_packet {
	__be16 hardware_type;
	__be16 protocol_type;
	__u8 hardware_length; /* bytes */
	__u8 protocol_length; /* bytes */
	__be16 operation;
	__u8 sender_hardware[ETH_ALEN];
	__be32 sender; /* network order */
	__u8 target_hardware[ETH_ALEN];
	__be32 target; /* network order */
} __attribute__((packed));
_Static_assert(sizeof(struct arp_packet) == 28, "no hidden padding in arp_packet");

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Not inlined: so enum pod_drop gets into the object's BTF, where the layout test compares it with user space's. */
static __noinline int drop(struct pod_link *link, enum pod_drop reason, __u32 bytes)
{
	if (link && reason < POD_DROP_LIMIT) {
		__sync_fetch_and_add(&link->drops[reason].packets, 1);
		__sync_fetch_and_add(&link->drops[reason].bytes, bytes);
	}
	return TC_ACT_SHOT;
}

/* Behind a VLAN tag in metadata the header is where it is without. */
static __always_inline bool load_ipv4(struct __sk_buff *skb, struct iphdr *header)
{
	const struct iphdr *linear = (void *)(long)skb->data + sizeof(struct ethhdr);

	if ((void *)(linear + 1) <= (void *)(long)skb->data_end) {
		*header = *linear;
		return true;
	}
	return load(skb, sizeof(struct ethhdr), header, sizeof(*header));
}

static __always_inline bool is_ipv4_on_ethernet(const struct arp_packet *arp)
{
	return arp->hardware_type == bpf_htons(HARDWARE_ETHERNET) && arp->protocol_type == bpf_htons(ETH_P_IP) &&
	       arp->hardware_length == ETH_ALEN && arp->protocol_length == sizeof(arp->sender);
}

static __always_inline bool is_allowed_source(const struct pod_link *link, __be32 source)
{
	for (__u32 i = 0; i < ALLOWED_SOURCES_LIMIT; i++) {
		if (i >= link->allowed_count)
			return false;
		if ((source & link->allowed[i].mask) == link->allowed[i].network)
			return true;
	}
	return false;
}

static __always_inline bool may_send_from(const struct pod_link *link, __be32 source)
{
	struct container_address other = { .container = link->container, .address = source };

	return source == link->addresses[0] || bpf_map_lookup_elem(&container_addresses, &other) ||
	       is_allowed_source(link, source);
}

/*
 * A pod that may send protocol 4 still reaches no tunnel of ours, nor a node by way of this one's address. It is always a
 * stranger: where its allowed sources cover a node's address or the end of another tunnel, that does not make it one.
 */
static __always_inline enum verdict decide_on_pod(struct __sk_buff *skb, const struct ipip_packet *packet)
{
	return is_sound(packet) ? verdict_on_stranger(skb, skb->ifindex, &packet->outer) : VERDICT_MALFORMED;
}

static __always_inline int judge_ipip(struct __sk_buff *skb)
{
	struct ipip_packet packet;

	if (!load_ipip_from_ethernet_skb(skb, &packet))
		return TC_ACT_SHOT;
	return settle(decide_on_pod(skb, &packet), skb->len, TC_ACT_UNSPEC, TC_ACT_SHOT);
}

/* RFC 792: an error, which begins with 8 bytes of its own and goes on with the packet that it is about. */
struct icmp_error {
	__u8 type;
	__u8 rest[7];
	struct iphdr quoted;
};
_Static_assert(sizeof(struct icmp_error) == 28, "no hidden padding in icmp_error");

/* linux/icmp.h draws in headers of the C library. */
enum icmp_error_type {
	ICMP_DEST_UNREACH = 3,
	ICMP_SOURCE_QUENCH = 4,
	ICMP_REDIRECT = 5,
	ICMP_TIME_EXCEEDED = 11,
	ICMP_PARAMETERPROB = 12,
};

static __always_inline bool is_icmp_error(__u8 type)
{
	return type == ICMP_DEST_UNREACH || type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT ||
	       type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETERPROB;
}

/*
 * The kernel believes an error about a tunnel packet: "fragmentation needed" makes the tunnel to that node smaller for all
 * pods. Who may not send such packets gets none, and so has no error to tell of. A fragment has to hold all that is
 * looked at.
 */
static __always_inline int judge_icmp(struct __sk_buff *skb, struct pod_link *link, const struct iphdr *header)
{
	__u32 offset = sizeof(struct ethhdr) + header_length(header);
	struct icmp_error error;

	if (header->frag_off & bpf_htons(FRAGMENT_OFFSET_MASK))
		return TC_ACT_UNSPEC; /* without its first fragment nobody takes it for anything */
	if (!load(skb, offset, &error.type, sizeof(error.type)))
		return drop(link, POD_DROP_MALFORMED, skb->len);
	if (!is_icmp_error(error.type))
		return TC_ACT_UNSPEC;
	if (!load(skb, offset, &error, sizeof(error)))
		return drop(link, POD_DROP_MALFORMED, skb->len);
	if (error.quoted.protocol != IPPROTO_IPIP)
		return TC_ACT_UNSPEC;
	if (link->flags & POD_FLAG_ALLOW_IPIP && may_send_from(link, error.quoted.daddr))
		return TC_ACT_UNSPEC;
	return drop(link, POD_DROP_IPIP, skb->len);
}

static __always_inline int judge_ipv4(struct __sk_buff *skb, struct pod_link *link)
{
	struct iphdr header;

	if (!load_ipv4(skb, &header) || header.version != 4 || header_length(&header) < sizeof(header))
		return drop(link, POD_DROP_MALFORMED, skb->len);
	if (header.saddr == 0)
		return drop(link, POD_DROP_UNSPECIFIED_SOURCE, skb->len);
	if (!may_send_from(link, header.saddr))
		return drop(link, POD_DROP_SPOOFED_SOURCE, skb->len);
	/* The host delivers it where "portmap" switched route_localnet on; an allowed source such as 0.0.0.0/0 covers it. */
	if (is_loopback(header.saddr) || is_loopback(header.daddr))
		return drop(link, POD_DROP_LOOPBACK, skb->len);
	if (header.protocol == IPPROTO_ICMP)
		return judge_icmp(skb, link, &header);
	if (header.protocol != IPPROTO_IPIP)
		return TC_ACT_UNSPEC;
	if (!(link->flags & POD_FLAG_ALLOW_IPIP))
		return drop(link, POD_DROP_IPIP, skb->len);
	return judge_ipip(skb);
}

/*
 * The kernel makes a neighbour entry of every sender that asks for an address of the host's, or for one that the host
 * answers for, and the table is one for all pods. Of the hardware address it keeps the last: a pod misleads nobody but
 * itself with another one.
 */
static __always_inline int judge_arp(struct __sk_buff *skb, struct pod_link *link)
{
	struct arp_packet arp;

	if (!load(skb, sizeof(struct ethhdr), &arp, sizeof(arp)) || !is_ipv4_on_ethernet(&arp))
		return drop(link, POD_DROP_MALFORMED, skb->len);
	/* A probe for somebody else with the address (RFC 5227): no entry is made or changed, by no answer either. */
	if (arp.sender == 0)
		return TC_ACT_UNSPEC;
	if (!may_send_from(link, arp.sender))
		return drop(link, POD_DROP_SPOOFED_ARP, skb->len);
	if (is_loopback(arp.sender))
		return drop(link, POD_DROP_LOOPBACK, skb->len);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int guard_workload(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	struct pod_link *link = bpf_map_lookup_elem(&pod_links, &ifindex);

	if (!link || link->flags & POD_FLAG_SILENT)
		return TC_ACT_SHOT;
	if (skb->vlan_present && skb->vlan_tci & VLAN_ID_MASK)
		return drop(link, POD_DROP_OTHER_ETHERTYPE, skb->len);

	switch (skb->protocol) {
	case bpf_htons(ETH_P_IP):
		return judge_ipv4(skb, link);
	case bpf_htons(ETH_P_ARP):
		return judge_arp(skb, link);
	case bpf_htons(ETH_P_IPV6):
		return link->flags & POD_FLAG_ALLOW_IPV6 ? TC_ACT_UNSPEC : drop(link, POD_DROP_IPV6, skb->len);
	default:
		return drop(link, POD_DROP_OTHER_ETHERTYPE, skb->len);
	}
}
