#!/bin/sh
# Installs Orchestrator Zero's node on Linux, or removes it.
#
#   install.sh [--binary FILE] [--service [--user NAME]] [--data-dir DIR]
#   install.sh --uninstall [--data-dir DIR]
#
# As root to /usr/local/bin, as an ordinary user to ~/.local/bin. It starts nothing unless --service is given: then a
# systemd unit with Delegate=yes runs the node, root's as the user that --user names, an ordinary user's as that user.
# At the end it prints the first two lines of the node's check.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

binary=$(dirname "$0")/oz0-node
service= user= data= uninstall=
while [ $# -gt 0 ]; do
    case $1 in
    --binary | --user | --data-dir)
        [ $# -gt 1 ] || fail "$1 wants a value"
        case $1 in
        --binary) binary=$2 ;;
        --user) user=$2 ;;
        --data-dir) data=$2 ;;
        esac
        shift
        ;;
    --service) service=yes ;;
    --uninstall) uninstall=yes ;;
    --help | -h)
        sed -n '2,9s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) fail "not understood: $1; --help says what is" ;;
    esac
    shift
done

if [ "$(id -u)" -eq 0 ]; then
    programs=/usr/local/bin
    units=/etc/systemd/system
    wanted_by=multi-user.target
    system_control() { systemctl "$@"; }
else
    [ -n "${HOME-}" ] || fail "HOME is not set, and that is where an ordinary user's programs go"
    programs=$HOME/.local/bin
    units=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user
    wanted_by=default.target
    system_control() { systemctl --user "$@"; }
fi
program=$programs/oz0-node
unit=$units/oz0-node.service

# plain WORD TEXT: what goes into a unit has no character that means something there.
plain() {
    case $2 in
    '' | *[!A-Za-z0-9/._-]*) fail "$1: only letters, digits and / . _ - can stand in a unit: $2" ;;
    esac
}

install_service() {
    mkdir -p "$units"
    {
        echo '[Unit]'
        echo "Description=Orchestrator Zero's node"
        echo 'Wants=network-online.target'
        echo 'After=network-online.target'
        echo
        echo '[Service]'
        echo "ExecStart=$program run${data:+ --data-dir $data}"
        [ -z "$user" ] || echo "User=$user"
        echo '# Runs get cgroups of their own below this one.'
        echo 'Delegate=yes'
        echo 'Restart=on-failure'
        echo 'RestartSec=5'
        echo
        echo '[Install]'
        echo "WantedBy=$wanted_by"
    } >"$unit.new"
    chmod 644 "$unit.new"
    mv "$unit.new" "$unit"
    system_control daemon-reload
    system_control enable --now oz0-node.service
    echo "Service: $unit"
}

install_node() {
    [ -f "$binary" ] || fail "there is no program to install at $binary"
    if [ -n "$service" ]; then
        [ -d /run/systemd/system ] || fail "--service wants systemd, which does not run here; nothing was installed"
        plain 'the program' "$program"
        [ -z "$data" ] || plain --data-dir "$data"
        if [ "$(id -u)" -eq 0 ]; then
            [ -n "$user" ] || fail "--service as root wants --user NAME: whom the node runs as; nothing was installed"
            plain --user "$user"
            id "$user" >/dev/null 2>&1 || fail "there is no user $user; nothing was installed"
        elif [ -n "$user" ]; then
            fail "--user is root's; this service would run as $(id -un)"
        fi
    elif [ -n "$user" ]; then
        fail '--user says whom a service runs as: it goes with --service'
    fi
    mkdir -p "$programs"
    # A program that is running cannot be written, and can be replaced.
    cp "$binary" "$program.new"
    chmod 755 "$program.new"
    mv "$program.new" "$program"
    echo "Installed: $program"
    [ -z "$service" ] || install_service
    checked=$("$program" sandbox check ${data:+--data-dir "$data"}) || fail "the installed program's check failed"
    echo "$checked" | sed -n 1,2p
}

uninstall_node() {
    if [ -e "$unit" ]; then
        [ ! -d /run/systemd/system ] || system_control disable --now oz0-node.service
        rm "$unit"
        [ ! -d /run/systemd/system ] || system_control daemon-reload
        echo "Removed: $unit"
    fi
    if [ -e "$program" ]; then
        rm "$program"
        echo "Removed: $program"
    fi
    : "${data:=${OZ0_DATA_DIR:-${XDG_DATA_HOME:-${HOME-}/.local/share}/oz0-node}}"
    echo 'What remains:'
    if [ -e "$data" ]; then
        echo "  $data, with the node's identity: delete it when the node will not come back"
    else
        echo '  nothing of this user'
    fi
}

if [ -n "$uninstall" ]; then
    uninstall_node
else
    install_node
fi
