;; attack: exports `handle`, but it is a type
;; expect: admission refused: can't be born
;; raw component
(component
  (type $t (record (field "a" u32)))
  (export "handle" (type $t)))
