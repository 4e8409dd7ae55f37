;; attack: exports nothing
;; expect: admission refused: exports neither `handle`
;; raw component
(component)
