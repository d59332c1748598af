"""cli: the modules of husk that `husk run` imports, each behind those that it imports itself; a package brings what its
own __init__ imports from it. A test compares them with what is imported; a mistake here would only cost time."""

from __future__ import annotations


def _names(text: str) -> list[str]:
    return ["husk." + name for name in text.split()]


# Up to where husk-init begins.
FIRST = _names("""
    cli.options sandbox.errors cli.options.parse_words cli.exit_codes cli.options.run_options sandbox.limits
    sandbox.limits.limits native native.real_paths sandbox.policy cli.run_policy sandbox.start native.threads
    sandbox.orphans walls walls.landlock abi.box_walls walls.namespaces walls.init_plan sandbox.launch walls.gates
    walls.ids walls.ready_filter sandbox.plan sandbox.start.orders sandbox.locked_dir sandbox.state_dir vfs
    vfs.fd_reserve vfs.invalidation vfs.state sandbox.start.launch_ahead cli.start.begin_run
""")
# Until the box is built.
REST = _names("""
    kernel vfs.node vfs.pinned vfs.synth vfs.synth.synth_tree kernel.call kernel.changed_names kernel.events
    kernel.exec kernel.exec.resident kernel.exec.program_names abi.structs vfs.host_view kernel.identity
    kernel.listings kernel.made_files kernel.straight_names vfs.layer vfs.layer.inodes vfs.permissions vfs.walk
    kernel.namecache kernel.exec.program kernel.fd_tables kernel.syscalls kernel.kernel kernel.tasks vfs.clock
    vfs.image vfs.host vfs.host.host_file vfs.layer.cacheable vfs.layer.changes vfs.layer.content_copy
    vfs.layer.copy_up vfs.layer.lower vfs.layer.directory_ops vfs.layer.inode_numbers vfs.layer.metadata
    vfs.layer.reverse_lookup vfs.layer.upper_files vfs.layer.layered_tree vfs.layer.leftovers vfs.image.default_image
    vfs.image.etc_files vfs.proc abi.numbers vfs.proc.proc_nodes vfs.proc.view vfs.proc.entries vfs.proc.proc_tree
    vfs.synth.pts vfs.synth.dev vfs.synth.sysfs vfs.attributes vfs.handles vfs.mount_table vfs.naming vfs.opening
    vfs.placeholders vfs.running_programs vfs.vfs kernel.net sandbox.filesystem sandbox.box sandbox.result sandbox.serve
    sandbox.run sandbox.runner cli.cmd_run
""")
# To mount directories of the host.
FOR_MOUNTS = _names("""
    sandbox.mount_guards store store.store_errors store.layout vfs.host.host_tree sandbox.rules
    sandbox.rules.path_rule vfs.host.tree_rules sandbox.rules.mount_rules sandbox.rules.default_rules
""")
