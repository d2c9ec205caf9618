// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/* Programs and maps for the tests of libbpf-ts. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ICMP_ECHO 8 /* linux/icmp.h needs headers that the bpf target has not */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4);
	__uint(key_size, 8);
	__uint(value_size, 4);
} prefixes SEC(".maps");

/* A value that the kernel pads to 8 bytes for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} per_cpu SEC(".maps");

/* A type without batch operations. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} tail_calls SEC(".maps");

/* Echo requests seen: [0] by the first programs, [1] by the second ones. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} echoes SEC(".maps");

static __always_inline void count_echo(void *data, void *end, __u32 slot)
{
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);
	__u8 *icmp_type = (void *)(ip + 1);
	if ((void *)(icmp_type + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP))
		return;
	if (ip->protocol != IPPROTO_ICMP || *icmp_type != ICMP_ECHO)
		return;
	__u64 *count = bpf_map_lookup_elem(&echoes, &slot);
	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("tc")
int first_tc(struct __sk_buff *skb)
{
	count_echo((void *)(long)skb->data, (void *)(long)skb->data_end, 0);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int second_tc(struct __sk_buff *skb)
{
	count_echo((void *)(long)skb->data, (void *)(long)skb->data_end, 1);
	return TC_ACT_UNSPEC;
}

SEC("xdp")
int first_xdp(struct xdp_md *xdp)
{
	count_echo((void *)(long)xdp->data, (void *)(long)xdp->data_end, 0);
	return XDP_PASS;
}

SEC("xdp")
int second_xdp(struct xdp_md *xdp)
{
	count_echo((void *)(long)xdp->data, (void *)(long)xdp->data_end, 1);
	return XDP_PASS;
}

SEC("xdp")
int lengthen(struct xdp_md *xdp)
{
	return bpf_xdp_adjust_head(xdp, -20) ? XDP_ABORTED : XDP_TX;
}

SEC("tc")
int answer_mark(struct __sk_buff *skb)
{
	return skb->mark;
}

SEC("tc")
int count_in_table(struct __sk_buff *skb)
{
	__u32 key = 1, slot = 0;
	__u64 *count = bpf_map_lookup_elem(&table, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	__u32 *here = bpf_map_lookup_elem(&per_cpu, &slot);
	if (here)
		(*here)++;
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
