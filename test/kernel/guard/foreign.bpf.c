// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/* Programs of somebody else, on the hooks that the guard wants: they let everything pass. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* Packets that foreign_tc saw. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} seen SEC(".maps");

SEC("tc")
int foreign_tc(struct __sk_buff *skb)
{
	__u32 first = 0;
	__u32 *packets = bpf_map_lookup_elem(&seen, &first);

	if (packets)
		__sync_fetch_and_add(packets, 1);
	return TC_ACT_UNSPEC;
}

SEC("xdp")
int foreign_xdp(struct xdp_md *xdp)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
