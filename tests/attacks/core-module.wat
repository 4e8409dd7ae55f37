;; attack: is a core module
;; expect: admission refused: a core WebAssembly module, not a component
;; generate: core-module
