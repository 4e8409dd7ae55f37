;; attack: blocks as deep as may be
;; expect: replied done
;; generate: nesting depth=2000 functions=1
