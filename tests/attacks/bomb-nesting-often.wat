;; attack: many functions, each as deep as may be
;; expect: admission refused: depths of all blocks
;; generate: nesting depth=2000 functions=20
