//! Every kernel compiles without a GPU and agrees with the table.

use std::collections::BTreeSet;

use naga::{
    AddressSpace, ShaderStage, StorageAccess,
    front::wgsl,
    valid::{Capabilities, GlobalUse, ValidationFlags, Validator},
};
use unskew_shaders::{
    Access, CHOICE_PART_WORDS, KERNELS, Kernel, MASKED_CHOICE, PPV, ROW_PARTS, choice_parts,
};

/// A kernel that can be compiled, with the bindings that it uses.
fn compile(kernel: &Kernel) -> (naga::Module, naga::valid::ModuleInfo) {
    let module = wgsl::parse_str(kernel.source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string_with_path(kernel.source, kernel.name)));
    // No capabilities beyond those that every adapter has.
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module);
    let info =
        info.unwrap_or_else(|error| panic!("{}", error.emit_to_string_with_path(kernel.source, kernel.name)));
    (module, info)
}

#[test]
fn kernels_are_valid_and_have_the_bindings_of_the_table() {
    for kernel in KERNELS {
        let (module, info) = compile(&kernel);
        let [entry] = &module.entry_points[..] else { panic!("{}: one entry point", kernel.name) };
        assert_eq!((entry.name.as_str(), entry.stage), ("main", ShaderStage::Compute), "{}", kernel.name);
        assert_eq!(entry.workgroup_size, [kernel.workgroup, 1, 1], "{}", kernel.name);

        let expected = kernel.bindings;
        let mut found = BTreeSet::new();
        for (handle, variable) in module.global_variables.iter() {
            let Some(place) = variable.binding else { continue };
            assert_eq!(place.group, 0, "{}", kernel.name);
            let binding = expected[place.binding as usize];
            let name = variable.name.as_deref();
            assert_eq!(name, Some(binding.name), "{}", kernel.name);
            let access = match variable.space {
                AddressSpace::Uniform => Access::Uniform,
                AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => {
                    Access::ReadWrite
                }
                AddressSpace::Storage { .. } => Access::Read,
                other => panic!("{}: {name:?} is in {other:?}", kernel.name),
            };
            assert_eq!(access, binding.access, "{}: {name:?}", kernel.name);
            let uses = info.get_entry_point(0)[handle];
            assert!(uses != GlobalUse::empty(), "{}: {name:?} is not used", kernel.name);
            assert_eq!(
                uses.contains(GlobalUse::WRITE),
                access == Access::ReadWrite,
                "{}: {name:?}",
                kernel.name
            );
            found.insert(place.binding);
        }
        assert_eq!(found.len(), expected.len(), "{}", kernel.name);
        // WebGPU promises eight storage buffers on every adapter.
        let storage = expected.iter().filter(|binding| binding.access != Access::Uniform).count();
        assert!(storage <= 8, "{} has {storage} storage buffers", kernel.name);
    }
}

/// The two kernels of a choice share the parts of rows.
#[test]
fn kernels_over_rows_share_the_parts() {
    let shared = include_str!("../src/kernels/row.wgsl");
    for kernel in [ROW_PARTS, MASKED_CHOICE] {
        assert!(kernel.source.starts_with(shared), "{}", kernel.name);
        let (module, _) = compile(&kernel);
        let (_, part) = module
            .types
            .iter()
            .find(|(_, of)| of.name.as_deref() == Some("Part"))
            .expect("both kernels have parts");
        let naga::TypeInner::Struct { span, .. } = part.inner else { panic!("a structure") };
        assert_eq!(span as usize, 4 * CHOICE_PART_WORDS, "{}", kernel.name);
        let most = choice_parts(usize::MAX);
        assert!(kernel.source.contains(&format!("const MOST_PARTS: u32 = {most}u;")), "{}", kernel.name);
    }
}

#[test]
fn intervals_are_three_words() {
    let (module, _) = compile(&PPV);
    let (_, interval) = module
        .types
        .iter()
        .find(|(_, of)| of.name.as_deref() == Some("Interval"))
        .expect("the kernel has intervals");
    let naga::TypeInner::Struct { members, span } = &interval.inner else { panic!("a structure") };
    let names: Vec<_> = members.iter().map(|member| member.name.as_deref().unwrap_or_default()).collect();
    assert_eq!(names, ["depth", "lo", "hi"]);
    assert_eq!(*span, 12);
}
