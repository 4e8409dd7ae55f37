;; attack: one function as large as may be
;; expect: replied done
;; generate: body bytes=1048000
