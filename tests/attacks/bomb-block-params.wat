;; attack: blocks that take a thousand values each, in six bytes
;; expect: admission refused: values passed along branches
;; generate: block-params params=1000 blocks=150000
