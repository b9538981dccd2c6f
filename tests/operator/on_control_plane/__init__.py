"""The bundled operator on a real control plane; a package, so that its tests share their workbench."""
