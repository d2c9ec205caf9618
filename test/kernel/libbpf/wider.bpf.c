// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/* The map "table" of programs.bpf.c, with a wider value. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__uint(key_size, 4);
	__uint(value_size, 16);
} table SEC(".maps");

char _license[] SEC("license") = "Dual BSD/GPL";
