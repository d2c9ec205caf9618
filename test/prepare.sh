#!/bin/sh
# Makes a Debian machine ready for `npm test` and `npm run demo`: packages, Node.js dependencies, the build.
# Says what it does, and nothing when nothing is to do. Needs root, Node.js 20 or later and npm.
set -eu
cd "$(dirname "$0")/.."

build="gcc libc6-dev clang llvm libbpf-dev libelf-dev zlib1g-dev bpftool"
tests="iproute2 iputils-ping kmod mount nftables openssl procps python3-minimal tcpdump util-linux"
clients="busybox-static conmon containerd containernetworking-plugins crun iptables podman"
machine="busybox-static cpio qemu-system-x86"

refuse() {
	echo "Cannot prepare this machine: $1" >&2
	exit 1
}

# An installed runtime that came up by itself would meet those that the tests start: invoke-rc.d(8) asks this file.
forbid_services() {
	policy=/usr/sbin/policy-rc.d
	[ ! -e $policy ] || return 0
	trap 'rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
}

# npm puts node_modules/.bin first, which `npm ci` removes under the feet of the npm that runs from it.
PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v 'node_modules/\.bin$' | paste -s -d : -)

[ "$(id -u)" = 0 ] || refuse "user is \"$(id -un)\", only root can make network namespaces"
distribution=$(sed -n 's/^ID=//p' /etc/os-release 2>/dev/null || true)
[ "$distribution" = debian ] || refuse "distribution is \"$distribution\", allowed is Debian (12 or later)"
command -v npm >/dev/null || refuse "npm is missing, it comes with Node.js (20 or later)"
version=$(node --version 2>/dev/null || echo none)
major=${version#v}
[ "${major%%.*}" -ge 20 ] 2>/dev/null || refuse "Node.js is \"$version\", allowed is 20 or later"

# A package that dpkg does not list as installed is missing.
# shellcheck disable=SC2086 # one word a package
installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package} ' $build $tests $clients $machine 2>/dev/null || true)
missing=""
for package in $build $tests $clients $machine; do
	case " $installed" in
	*" ii $package "*) ;;
	*) missing="$missing $package" ;;
	esac
done

# The lists are read again only when apt has none (the stock kernels need its sources) or does not know a package.
export DEBIAN_FRONTEND=noninteractive
# A runtime of another origin on this machine is not to be replaced by Debian's: rather no tests than that.
install="apt-get install -q -y --no-install-recommends --no-remove"
# shellcheck disable=SC2086 # one word a package
knows_missing() {
	[ -n "$(apt-get indextargets 'Created-By: Packages')" ] || return
	[ -z "$missing" ] || $install --simulate $missing >/dev/null 2>&1
}
if ! knows_missing; then
	echo "prepare: reading the package lists"
	apt-get update -q
fi
if [ -n "$missing" ]; then
	echo "prepare: installing$missing"
	forbid_services
	# shellcheck disable=SC2086 # one word a package
	$install $missing
fi

if [ ! -e node_modules/.package-lock.json ] || [ -n "$(find package-lock.json -newer node_modules/.package-lock.json)" ]; then
	echo "prepare: installing the Node.js dependencies of package-lock.json"
	npm ci --no-audit --no-fund
fi

# Directories count too: removing a source changes only them.
built=dist/.built
if [ ! -e "$built" ] || [ -n "$(find package-lock.json build.ts src cni bpf -name node_modules -prune -o -name build -prune -o -newer "$built" -print)" ]; then
	echo "prepare: building dist/"
	npm run --silent build
	touch "$built"
fi
